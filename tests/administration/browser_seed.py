"""Fills a site with hostile text; prints its administrator's session and the pages to open.

Runs in a process of its own with the site's ``DATA_DIR``. ``every_field`` fills every text of every
record, ``hostile`` those of `tests.administration.hostile` with more text each.
"""

from __future__ import annotations

import json
import os
import sys


def main(kind: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    from chat.models import User
    from tests.administration import every_field, hostile
    from tests.support.processes.seed import sign_in

    ada = User.objects.create_user(
        "ada@example.org", None, name="Ada", is_staff=True, is_superuser=True
    )
    fill = {"every_field": every_field.fill, "hostile": hostile.fill}[kind]
    print(json.dumps({"pages": fill(ada), "session": sign_in(ada)}))


if __name__ == "__main__":
    main(sys.argv[1])
