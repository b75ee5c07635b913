"""Imported by the process from which servers are forked that share a PostgreSQL and a Redis."""

from tests.support.loaded import SHARED, load

load(SHARED)
