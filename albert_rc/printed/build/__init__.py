"""Blocks and lists to papers."""
