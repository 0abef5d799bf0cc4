"""Papers as schools print them: numbered blanks, lists of options, an answer key."""
