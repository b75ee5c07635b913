"""Projects of teams: what belongs together, with its own members."""
