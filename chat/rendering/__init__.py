"""Events to HTML: deterministic, without input or output, the same for live and reloaded pages."""
