"""The command line, one file per command. Nothing else imports it."""
