"""The administration site, and the conversation history for administrators."""
