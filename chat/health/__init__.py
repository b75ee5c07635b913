"""Health of a process: whether it is alive, whether it can serve, and its metrics."""
