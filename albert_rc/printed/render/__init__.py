"""Papers in print layout: numbered blanks, lists of options, an answer key."""
