"""The beginning of a live connection: who connects, what the tab shows, and its cursors."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404

from chat import access
from chat.core.database_identity import page_database_identity
from chat.core.threads import readers
from chat.core.time_zones import COOKIE
from chat.live.access_monitor import GONE_RESTORED, Identity
from chat.live.page_updates import MOST_STATE_BYTES, ShownPage
from chat.live.trackers import Reader
from chat.live.viewer import MOST_RUNS, Viewer
from chat.models import AccessToken, User


class Cursor(msgspec.Struct):
    """The position of a page in one run, with the checksum of the log up to there."""

    run: UUID
    seq: int = 0
    check: str = ""
    # Whether the page can put back what shared frames leave out; one of an older version can't.
    holds: bool = False


class Page(msgspec.Struct, tag="page"):
    """What a page shows of its conversation, see `chat.live.page_updates`: in the first message, and
    whenever that changes. Without ``state`` the page is asking for its changes itself."""

    number: int = 0
    revision: int = 0
    state: msgspec.Raw = msgspec.Raw()
    list_version: str = ""

    def shown(self) -> ShownPage | None:
        state = bytes(self.state)
        if not state:
            return None
        if len(state) > MOST_STATE_BYTES:
            # The renderer does not know this one: the page asks for its changes.
            state = b"{}"
        return ShownPage(number=self.number, revision=self.revision, state=state)


class Subscribe(msgspec.Struct, tag="hello"):
    """The first message of a tab: its conversation, and its cursors in live answers."""

    room: UUID | None = None
    revision: int = 0
    writes: bool | None = None
    draining: list[UUID] = []
    # Identity of the database that the page was rendered from; empty if the tab did not send it.
    epoch: str = ""
    # Version of the list of conversations; empty if the page shows none.
    list_version: str = ""
    runs: list[Cursor] = []
    page: Page | None = None


async def subscribe(viewer: Viewer, user: User, hello: Subscribe) -> None:
    """Connects the tab to its conversation and runs.

    Raises ``Http404`` or ``PermissionDenied`` for the conversation. Runs that the person may not read
    are left out.
    """
    if hello.epoch and hello.epoch != await readers.call(page_database_identity):
        viewer.on_gone(GONE_RESTORED)
        return
    if hello.room is not None:
        await readers.call(access.get_conversation, user, hello.room)
    viewer.enter(
        hello.room,
        hello.revision,
        may_write=hello.writes,
        draining=frozenset(hello.draining),
        list_version=hello.list_version,
    )
    if hello.page is not None:
        viewer.show(hello.page.shown())
    for cursor in hello.runs[:MOST_RUNS]:
        await follow_run(viewer, user, cursor)


async def follow_run(viewer: Viewer, user: User, cursor: Cursor) -> None:
    try:
        run = await readers.call(access.get_run, user, cursor.run)
    except (Http404, PermissionDenied):
        # A deleted answer. The conversation itself is checked by the access monitor.
        return
    await viewer.follow(
        cursor.run, run.conversation.public_id, cursor.seq, cursor.check, holds=cursor.holds
    )


def identity_of(scope: dict[str, Any]) -> Identity | None:
    """The person of the session; ``None`` if nobody is signed in."""
    user = scope.get("user")
    session = scope.get("session")
    if user is None or not user.is_authenticated or not session or not session.session_key:
        return None
    return Identity(user_pk=user.pk, session_key=session.session_key, password=user.password)


def reader_of(identity: Identity, scope: dict[str, Any]) -> Reader:
    """Whose tab it is, with what updates of pages contain for this browser alone, from its cookies."""
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
    """The token in an ``Authorization`` header, or an empty string."""
    scheme, _, text = authorization.strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
