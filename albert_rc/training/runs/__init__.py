"""Runs as a whole: prepared, repeated over seeds and folds, searched, verified."""
