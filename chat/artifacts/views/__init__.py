"""Pages of artifacts, mockups and previews."""
