"""Exam papers as people keep them: formats, parsing, ids, overlap."""
