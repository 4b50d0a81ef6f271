"""The command line: click, thin, lazy, last."""
