"""The formats of the one language that the pages are in."""
