"""What commands share: output, the log, the parser, and the process."""
