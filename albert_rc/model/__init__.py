"""The encoder, its attention and its heads. Knows batches, not papers."""
