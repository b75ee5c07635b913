"""Several web processes and runners on one PostgreSQL and one Redis."""
