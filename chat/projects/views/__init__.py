"""Pages and forms of projects."""
