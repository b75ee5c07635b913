"""Cases of LLM servers."""

from __future__ import annotations

from chat.models import ModelGrant
from tests.access_matrix.case import ADMIN, Case, Values, World, administrators, signed_in_only


def _server(world: World) -> Values:
    return {"public_id": world.upstream.public_id}


def _dialect(world: World) -> Values:
    return {"dialect": "openai_chat"}


def _server_fields(world: World) -> Values:
    return {
        "name": "Cellar",
        "dialect": "lmstudio",
        "base_url": "http://127.0.0.1:9",
        "concurrency_limit": 2,
        # Adding a server needs no test.
        "untested": "true",
    }


def _grant(world: World) -> Values:
    grant = ModelGrant.objects.create(upstream=world.upstream, team=world.team)
    return {"public_id": world.upstream.public_id, "grant_id": grant.public_id}


def _limited(world: World) -> Values:
    return {"who": "selected"}


def _grant_fields(world: World) -> Values:
    return {"place": world.team.public_id.hex, "listed": ["demo/model"]}


def _team(world: World) -> Values:
    return {"team_id": world.team.public_id}


# Those who manage the team, and administrators, see its models.
_MANAGERS = signed_in_only(404, alice=200, bob=403, viewer=403) | {ADMIN: 200}

UPSTREAM_CASES = [
    Case("server_access", administrators(200), kwargs=_server),
    Case("server_access", administrators(302), "", _server, "post", _limited),
    Case("server_grant_add", administrators(200), kwargs=_server),
    Case("server_grant_add", administrators(302), "", _server, "post", _grant_fields),
    Case("server_grant", administrators(200), kwargs=_grant),
    Case("server_grant", administrators(302), "", _grant, "post", _grant_fields),
    Case("server_grant_remove", administrators(302), "", _grant, "post"),
    Case("team_models", _MANAGERS, kwargs=_team),
    Case("servers", administrators(200)),
    Case("styleguide", administrators(200)),
    Case("server_add", administrators(200)),
    Case("server_add", administrators(302), method="post", data=_server_fields),
    Case("server_dialect", administrators(200), data=_dialect),
    Case("server_discover", administrators(200), method="post"),
    Case("server_connect", administrators(302), method="post"),
    Case("server_hide_demos", administrators(302), method="post"),
    Case("server", administrators(200), kwargs=_server),
    Case("server_settings", administrators(200), kwargs=_server),
    Case("server_settings", administrators(302), "", _server, "post", _server_fields),
    Case("server_diagnostics", administrators(200), kwargs=_server),
    Case("server_switch", administrators(302), "", _server, "post"),
    Case("server_drain", administrators(302), "", _server, "post"),
    Case("server_states", administrators(200)),
    # Nothing listens at the server's address; the page reports that.
    Case("server_test", administrators(302), "", _server, "post"),
    Case("server_models", administrators(200), kwargs=_server),
    Case("server_models", administrators(302), "", _server, "post"),
    Case("server_model_switch", administrators(302), "", _server, "post"),
    Case("server_advice", administrators(302), "", _server, "post"),
    Case("server_delete", administrators(200), kwargs=_server),
    Case("server_delete", administrators(302), "", _server, "post"),
]
