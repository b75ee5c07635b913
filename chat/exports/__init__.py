"""A conversation as a file: Markdown, JSON or HTML."""
