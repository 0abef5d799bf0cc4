"""The model: encoder, attention and heads. It takes batches, not papers."""
