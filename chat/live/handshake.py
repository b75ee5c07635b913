"""The beginning of a live connection: who connects, what the tab shows, and its cursors."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from channels.auth import get_user
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404

from chat import access
from chat.core.database_identity import database_of, page_database_identity
from chat.core.threads import readers
from chat.core.time_zones import COOKIE
from chat.live.access_monitor import GONE_RESTORED, Identity
from chat.live.channels import Reader
from chat.live.viewer import MOST_RUNS, Viewer
from chat.models import AccessToken, User


class Cursor(msgspec.Struct):
    """The position of a page in one run, with the checksum of the log up to there."""

    run: UUID
    seq: int = 0
    check: str = ""
    # True if the page can restore parts that shared frames leave out; older versions can't.
    holds: bool = False


class Subscribe(msgspec.Struct, tag="hello"):
    """The first message of a tab: its conversation, and its cursors in live answers."""

    room: UUID | None = None
    # The sources that the page was made from (`page_database_identity`); empty if the tab did not send them.
    epoch: str = ""
    runs: list[Cursor] = []
    # The tab's message to each channel (`chat.live.channels`). Pages of older versions send none.
    channels: dict[str, msgspec.Raw] | None = None


async def subscribe(viewer: Viewer, user: User, hello: Subscribe) -> None:
    """Connects the tab to its conversation and runs.

    Raises ``Http404`` or ``PermissionDenied`` for the conversation. Runs that the person may not read
    are left out.
    """
    current = await readers.call(page_database_identity) if hello.epoch else ""
    if hello.channels is None or database_of(hello.epoch) != database_of(current):
        viewer.on_gone(GONE_RESTORED)
        return
    if hello.room is not None:
        await readers.call(access.get_conversation, user, hello.room)
    viewer.enter(hello.room)
    viewer.receive(hello.channels or {})
    for cursor in hello.runs[:MOST_RUNS]:
        await follow_run(viewer, user, cursor)
    if hello.epoch != current:
        viewer.tell_outdated()


async def follow_run(viewer: Viewer, user: User, cursor: Cursor) -> None:
    try:
        run = await readers.call(access.get_run, user, cursor.run)
    except (Http404, PermissionDenied):
        # A deleted answer. The conversation itself is checked by the access monitor.
        return
    await viewer.follow(
        cursor.run, run.conversation.public_id, cursor.seq, cursor.check, holds=cursor.holds
    )


async def identity_of(scope: dict[str, Any]) -> Identity | None:
    """The person of the session, also put into the scope as ``user``; ``None`` if nobody is signed in.

    Here and not in a middleware, so that the endpoint can respond when the database is unavailable.
    """
    user = scope["user"] = await get_user(scope)
    session = scope["session"]
    if not user.is_authenticated or not session.session_key:
        return None
    if access.factor_state(user, session) is not access.FactorState.FULFILLED:
        return None
    return Identity(user_pk=user.pk, session_key=session.session_key, password=user.password)


def reader_of(identity: Identity, scope: dict[str, Any]) -> Reader:
    """The tab's person, with the values that updates contain for this browser alone, from its cookies."""
    cookies = scope.get("cookies", {})
    token = cookies.get(settings.CSRF_COOKIE_NAME, "")
    return Reader(
        person=identity.user_pk,
        zone=cookies.get(COOKIE, ""),
        csrf_token=token if token.isascii() and token.isalnum() else "",
    )


def identity_of_token(token: AccessToken) -> Identity:
    return Identity(user_pk=token.user_id, token_pk=token.pk, team_pk=token.team_id)


def token_of(authorization: str) -> str:
    """The token, or an empty string."""
    scheme, _, text = authorization.strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
