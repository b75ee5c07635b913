"""The inbox: everything that waits for a person or that they have not read, from all features."""
