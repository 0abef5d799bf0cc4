"""Running text for pretraining: read, cut into sequences, with words hidden."""
