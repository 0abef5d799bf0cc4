"""Printed exam papers to JSON: text, lines, what each of them is, papers, files."""
