"""What a run learns: questions, spans, hidden words, a teacher."""
