"""Who is behind a connection: by its session, or by the access token of a program."""

from __future__ import annotations

from typing import Any

from chat.live.watch import Identity
from chat.models import AccessToken


def identity_of(scope: dict[str, Any]) -> Identity | None:
    """Who the session says this is; ``None`` for nobody."""
    user = scope.get("user")
    session = scope.get("session")
    if user is None or not user.is_authenticated or not session or not session.session_key:
        return None
    return Identity(user_pk=user.pk, session_key=session.session_key, password=user.password)


def identity_of_token(token: AccessToken) -> Identity:
    return Identity(user_pk=token.user_id, token_pk=token.pk, team_pk=token.team_id)


def token_of(authorization: str) -> str:
    """The text of the token in an ``Authorization`` header; empty where there is none."""
    scheme, _, text = authorization.strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
