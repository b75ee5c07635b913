"""Artifacts and mockups: versioned files that answers make, with previews."""
