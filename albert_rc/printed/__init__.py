"""Import of printed exam papers: text, lines, recognition of their parts, papers, files."""
