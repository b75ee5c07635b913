"""Which database this is. A page that was made from another one, such as the one from before a
backup was restored, is loaded anew: what it shows may never have happened.

A mark that is stored in the database would be restored with it. This one says where the records
lie, which no backup holds: in which cluster and database, on which of its timelines, and in which
file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.db import connection

from chat.core.prepared import fetch
from chat.core.static_files import static_mark

# A cluster that was restored to a point in time, and a standby that took over, go on with a timeline
# of their own; its number begins the name of each file of the log. PostgreSQL moves a table into a new
# file also when it is rewritten (VACUUM FULL): then pages are loaded once more than they need to be.
_PLACE = """
    SELECT (SELECT system_identifier FROM pg_control_system()),
           (SELECT oid FROM pg_database WHERE datname = current_database()),
           left(pg_walfile_name(pg_current_wal_lsn()), 8),
           pg_relation_filenode('chat_conversation')
"""


def read_database_identity() -> str:
    """The same in every process, for as long as the records are the same ones."""
    place = _in_postgres() if connection.vendor == "postgresql" else _in_file()
    return hashlib.blake2b(repr(place).encode(), digest_size=8).hexdigest()


def page_database_identity() -> str:
    """What a page is made from: this database, and the scripts of this version. A page with the scripts
    of another version would half work, and is loaded anew in the same way."""
    return f"{read_database_identity()}.{static_mark()}"


def _in_postgres() -> object:
    (place,) = fetch(_PLACE)
    return place


def _in_file() -> object:
    try:
        found = Path(str(connection.settings_dict["NAME"])).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
