"""Input and output: atomic files, JSON, tensors, text encodings, quoting in messages."""
