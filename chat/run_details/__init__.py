"""Everything known about one run: timeline, events, raw frames, export, replay."""
