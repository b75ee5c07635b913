"""Makes the data of a site for API clients: two teams, a token for each kind of actor, servers.

Runs in a process of its own with the site's ``DATA_DIR``; ``SERVERS`` is a JSON list of what each
server has. Prints the tokens by actor, and Alice's session.
"""

import json
import os
from datetime import timedelta
from typing import Any


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    for server in json.loads(os.environ["SERVERS"]):
        make_server(server)
    print(json.dumps(make_people()))


def make_people() -> dict[str, object]:
    from chat.models import Membership, Team, TeamRole, User
    from tests.support.processes.seed import sign_in

    river, mountain = (Team.objects.create(name=name) for name in ("River", "Mountain"))
    people = {
        name: User.objects.create_user(f"{name}@example.org", None, name=name.capitalize())
        for name in ("alice", "bob", "vera", "erin", "dana")
    }
    for team, members in (
        (river, ("alice", "bob", "vera", "erin")),
        (mountain, ("alice", "dana")),
    ):
        for name in members:
            Membership.objects.create(team=team, user=people[name], role=TeamRole.MEMBER)
    tokens = {
        **{name: make_token(people[name], river) for name in ("alice", "bob", "vera", "erin")},
        "dana": make_token(people["dana"], mountain),
        "alice for another team": make_token(people["alice"], mountain),
        "alice revoked": make_token(people["alice"], river, revoked=True),
        "alice expired": make_token(people["alice"], river, expired=True),
    }
    # Since their tokens were made, Vera became a viewer and Erin was deactivated.
    Membership.objects.filter(user=people["vera"]).update(role=TeamRole.VIEWER)
    User.objects.filter(pk=people["erin"].pk).update(is_active=False)
    return {"tokens": tokens, "session": sign_in(people["alice"])}


def make_token(user: Any, team: Any, *, revoked: bool = False, expired: bool = False) -> str:
    from django.utils import timezone

    from chat.accounts.actions.tokens import create_token, revoke_token

    made, text = create_token(user, team, name="test", days=1)
    if revoked:
        revoke_token(user, made)
    if expired:
        made.expires_at = timezone.now() - timedelta(seconds=1)
        made.save()
    return text


def make_server(fields: dict[str, Any]) -> None:
    from chat.models import Upstream

    key, models = str(fields.pop("key", "")), fields.pop("models")
    upstream = Upstream(**fields)
    upstream.model_list = [
        {"id": model, "label": model, "detail": {}, "is_typed": False} for model in models
    ]
    upstream.set_key(key)
    upstream.save()


if __name__ == "__main__":
    main()
