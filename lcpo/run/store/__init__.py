"""What runs leave on disk: every file name (`layout`), atomic writes (`files`), records,
checkpoints, and how to read them back (`results`)."""
