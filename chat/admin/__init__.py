"""Django's admin: records to look at, and the conversation history."""
