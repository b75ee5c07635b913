"""Full-text search over everything a person may read."""
