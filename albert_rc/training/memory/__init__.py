"""What a training step holds in memory, and how it is made to fit."""
