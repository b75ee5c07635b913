"""Imported by the process from which servers are forked that have everything for themselves."""

from tests.support.loaded import ALONE, load

load(ALONE)
