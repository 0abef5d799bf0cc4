"""From raw papers to batches of tensors."""
