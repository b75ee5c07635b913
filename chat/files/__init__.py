"""Stored files: attached pictures, files of answers, downloads, and remote images."""
