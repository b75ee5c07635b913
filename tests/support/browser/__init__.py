"""A real browser on a real site: tabs for people, and what stands between the two."""
