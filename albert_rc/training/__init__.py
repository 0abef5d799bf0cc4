"""Fine-tuning: the loop, the optimiser, checkpoints, several processes."""
