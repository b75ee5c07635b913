"""Configured LLM servers: settings, connection test, lists of models, the demo servers."""
