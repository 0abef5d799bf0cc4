"""Training objectives: questions, spans, pretraining, distillation."""
