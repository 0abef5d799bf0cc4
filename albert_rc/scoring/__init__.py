"""Answers and probabilities against the right answers. Never imports torch."""
