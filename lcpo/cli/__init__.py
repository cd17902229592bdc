"""The command `lcpo`."""
