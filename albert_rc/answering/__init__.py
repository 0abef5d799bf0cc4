"""Answering: a model's predictions for a store or for papers."""
