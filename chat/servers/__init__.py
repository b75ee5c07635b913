"""Configured LLM servers: settings, connection test, models, the demo servers."""
