"""Runs: preparation, repetition over seeds and folds, search, verification."""
