"""Files: whole or not at all, JSON, tensors, text encodings, and what is quoted in messages."""
