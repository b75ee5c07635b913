"""Conversations, messages and branches: the conversation page, its list, its composer."""
