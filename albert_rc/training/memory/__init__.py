"""Memory of a training step: prediction and planning."""
