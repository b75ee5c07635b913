"""What a process tells about itself: whether it lives, whether it can serve, and its figures."""
