"""Stored files: attachments, downloads, remote images."""
