"""Changes of configured servers."""
