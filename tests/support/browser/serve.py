"""Runs the serve command with a fault.

``python -m tests.support.browser.serve <fault> …``: see `FAULTS`.
"""

import os
import sys
from pathlib import Path
from typing import Any

# While this file is in DATA_DIR, the database is full.
FULL = "full"


def full_at_times() -> None:
    """The database takes no further page while the file `FULL` is there, as on a full disk."""
    from django.conf import settings
    from django.db.backends.signals import connection_created

    def limit(connection: Any, **_: object) -> None:
        if Path(settings.DATA_DIR, FULL).exists():
            with connection.cursor() as cursor:
                # SQLite raises this to the number of pages that there are.
                cursor.execute("PRAGMA max_page_count = 1")

    connection_created.connect(limit, weak=False)


def other_version() -> None:
    """The pages have scripts of another version; their content is the same."""
    from chat.core import database_identity

    digest = database_identity.source_digest()
    database_identity.source_digest = lambda: digest[::-1]


FAULTS = {fault.__name__: fault for fault in (full_at_times, other_version)}


def main(fault: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    from django.core.management import call_command

    FAULTS[fault]()
    call_command("serve", *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
