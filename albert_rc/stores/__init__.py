"""Papers as tensors on disk: made, checked, read in batches."""
