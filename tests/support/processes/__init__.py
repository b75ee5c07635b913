"""A real server process on a copy of seeded data, which can be killed and restarted."""
