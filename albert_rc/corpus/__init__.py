"""The pretraining corpus: reading text, cutting it into sequences, masking."""
