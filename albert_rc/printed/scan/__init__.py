"""Pictures of printed pages: photographs, scans, and PDF files without text."""
