"""Raw exam papers: file formats, parsing, ids, overlap."""
