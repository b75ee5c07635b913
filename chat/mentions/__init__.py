"""Mentions: ``@`` and the name of a person in a message."""
