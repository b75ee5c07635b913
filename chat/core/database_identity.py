"""Identifies the database. A page that was made from another one, such as before a backup was
restored, is reloaded, because its content may never have happened.

A mark stored in the database would be restored with it. This identity says where the records are,
which no backup contains: the cluster and database, its timeline, and the file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.db import connection

from chat.core.prepared import fetch
from chat.core.static_files import source_digest

# A cluster that was restored to a point in time, and a standby that took over, continue on a
# timeline of their own; its number begins the name of each file of the log. PostgreSQL also moves a
# table into a new file when it rewrites the table (VACUUM FULL). Then pages are reloaded once more
# than needed.
_PLACE = """
    SELECT (SELECT system_identifier FROM pg_control_system()),
           (SELECT oid FROM pg_database WHERE datname = current_database()),
           left(pg_walfile_name(pg_current_wal_lsn()), 8),
           pg_relation_filenode('chat_conversation')
"""


def read_database_identity() -> str:
    """The identity, which is the same in all processes."""
    place = _in_postgres() if connection.vendor == "postgresql" else _in_file()
    return hashlib.blake2b(repr(place).encode(), digest_size=8).hexdigest()


def page_database_identity() -> str:
    """Identifies the sources of a page: this database, and the scripts of this version. A page with
    scripts of another version may half work, so it is reloaded, too, when that disturbs nobody."""
    return f"{read_database_identity()}.{source_digest()}"


def database_of(page_identity: str) -> str:
    """The part that identifies the database."""
    return page_identity.partition(".")[0]


def _in_postgres() -> object:
    (place,) = fetch(_PLACE)
    return place


def _in_file() -> object:
    try:
        found = Path(str(connection.settings_dict["NAME"])).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
