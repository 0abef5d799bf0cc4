"""Benchmarks of our training and prediction, a peer's, and the machine's matrix rate."""
