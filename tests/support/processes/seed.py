"""Creates the data of a site: Alice's team, a stranger, their sessions, and one upstream server.

Runs in a process of its own with the site's ``DATA_DIR``, and prints what it created as JSON.
"""

import json
import os
from importlib import import_module


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    print(json.dumps(make()))


def make() -> dict[str, object]:
    from chat.models import Membership, Team, TeamRole, Upstream, User

    names = ("Alice", "Bob", "Vera", "Charlie")
    people = {
        name: User.objects.create_user(f"{name.lower()}@example.org", None, name=name)
        for name in names
    }
    team = Team.objects.create(name="River")
    for name, role in (
        ("Alice", TeamRole.OWNER),
        ("Bob", TeamRole.MEMBER),
        ("Vera", TeamRole.VIEWER),
    ):
        Membership.objects.create(team=team, user=people[name], role=role)
    upstream = Upstream.objects.create(
        name="Fake",
        dialect="lmstudio",
        base_url="http://127.0.0.1:9",
        model_list=[{"id": "test/model", "label": "Test", "detail": {}, "is_typed": False}],
    )
    return {
        "team": team.public_id.hex,
        "upstream": upstream.public_id.hex,
        "sessions": {name: sign_in(user) for name, user in people.items()},
    }


def sign_in(user: object) -> str:
    """A session as the sign-in form would make it; its key."""
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

    from chat.access import PASSED_KEY
    from chat.web.session_use import recent_writes

    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    # As after signing in with a second factor, so that a site may give its people one.
    session[PASSED_KEY] = user.pk
    session.create()
    # Its first use is written by other processes only: what tests count doesn't begin with it.
    recent_writes.take_turn(session.session_key)
    return str(session.session_key)


if __name__ == "__main__":
    main()
