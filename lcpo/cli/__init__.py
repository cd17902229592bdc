"""The command `lcpo`: `main` finds the command, one file per group of commands runs it."""
