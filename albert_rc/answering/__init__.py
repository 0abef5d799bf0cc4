"""Answers of a model to a store or to papers."""
