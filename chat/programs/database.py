"""The threads in which programs' requests read and write."""

from __future__ import annotations

from django.conf import settings

from chat.runs.database import DatabaseThreads

# Not those of the followers of logs: a write may wait for the database's only writer.
threads = DatabaseThreads("programs", size=4, answer_seconds=settings.DATABASE_WAIT_SECONDS)
# A stop stands in no line with what others send.
stopping = DatabaseThreads("programs-stop", size=1, answer_seconds=settings.DATABASE_WAIT_SECONDS)
