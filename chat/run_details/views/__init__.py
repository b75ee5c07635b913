"""Pages about one run."""
