"""Skills: imported from ZIP files, listed by name, and loaded by models on demand."""
