"""What OpenAI's dialects share: parameters and usage."""
