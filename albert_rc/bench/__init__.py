"""Benchmarks: our training and prediction, a peer's, and what the machine could do at best."""
