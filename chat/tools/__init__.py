"""A team's function tools."""
