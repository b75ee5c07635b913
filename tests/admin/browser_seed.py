"""Makes the data of a site whose texts are hostile; prints a session of its administrator.

Runs in a process of its own with the site's ``DATA_DIR``.
"""

from __future__ import annotations

import json
import os


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    print(json.dumps(make()))


def make() -> dict[str, object]:
    from django.conf import settings
    from django.test import Client

    from chat.models import User
    from tests.admin.test_hostile import HOSTILE, plant

    ada = User.objects.create_user(
        "ada@example.org", None, name="Ada", is_staff=True, is_superuser=True
    )
    pages = plant(" ".join(HOSTILE))
    client = Client()
    client.force_login(ada, backend=settings.AUTHENTICATION_BACKENDS[0])
    return {"session": client.cookies[settings.SESSION_COOKIE_NAME].value, "pages": pages}


if __name__ == "__main__":
    main()
