"""Readers of documents, which run in a child process (`chat.core.isolation`): no Django, no database, no keys.

Each kind has a module with two functions: ``prime()`` imports and loads whatever its library loads late, because nothing
can be opened once the limits apply, and ``read(file, order)`` yields the pages.
"""
