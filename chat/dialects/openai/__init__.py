"""Code shared by OpenAI's dialects: parameters and usage."""
