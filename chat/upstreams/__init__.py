"""HTTP requests to LLM servers. Only this package uses httpx."""
