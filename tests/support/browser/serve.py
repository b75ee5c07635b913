"""Runs the serve command with a fault.

``python -m tests.support.browser.serve <fault> …``: see `FAULTS`.
"""

import os
import sys
from pathlib import Path
from typing import Any

# While this file is in DATA_DIR, the database is full.
FULL = "full"


def without_notifications() -> None:
    """No change is announced to anybody: processes and pages notice it when they look."""
    from chat.core.notify import ChangeNotifier

    ChangeNotifier.publish = lambda self, topic: None  # type: ignore[method-assign]


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


FAULTS = {fault.__name__: fault for fault in (without_notifications, full_at_times)}


def main(fault: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    from django.core.management import call_command

    FAULTS[fault]()
    call_command("serve", *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
