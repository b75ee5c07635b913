"""Makes the data of the browser's site: the people of the crash tests, with passwords, and Ada.

Runs in a process of its own with the site's ``DATA_DIR``, and prints what it made as JSON.
"""

import json
import os

from tests.support.processes.seed import make, sign_in

PASSWORD = "correct horse battery"


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    print(json.dumps(with_passwords(make())))


def with_passwords(made: dict[str, object]) -> dict[str, object]:
    """Everybody can sign in by the form, too; Ada administers, and is in the team."""
    from django.contrib.auth.hashers import make_password

    from chat.models import Membership, Team, TeamRole, User

    team = Team.objects.get()
    ada = User.objects.create_user(
        "ada@example.org", None, name="Ada", is_staff=True, is_superuser=True
    )
    Membership.objects.create(team=team, user=ada, role=TeamRole.ADMIN)
    # Hashed once: the salt is nobody's concern here, and hashing takes long by design.
    User.objects.update(password=make_password(PASSWORD))
    return {**made, "sessions": {user.name: sign_in(user) for user in User.objects.all()}}


if __name__ == "__main__":
    main()
