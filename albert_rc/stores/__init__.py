"""Stores: papers as tensors on disk; writing, checking, and batches."""
