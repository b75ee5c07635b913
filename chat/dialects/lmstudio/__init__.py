"""LM Studio's native chat API."""
