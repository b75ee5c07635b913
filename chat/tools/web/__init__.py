"""Web search and reading of pages, ready to be turned on."""
