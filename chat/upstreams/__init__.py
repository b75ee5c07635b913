"""Talking to LLM servers over HTTP: the only floor that uses httpx."""
