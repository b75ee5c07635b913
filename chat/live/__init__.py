"""Per-process fan-out: one follower and one renderer for each run that somebody watches."""
