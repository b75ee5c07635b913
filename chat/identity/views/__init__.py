"""Views of signing in at providers, and of their settings."""
