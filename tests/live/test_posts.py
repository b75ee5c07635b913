"""Forms over the websocket: the view's answer, exactly one message whatever breaks, and who is refused."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from chat.conversations.actions import messages as message_actions
from chat.core.request_queue import Overloaded, request_queue
from chat.live.posts import MOST_WAITING
from chat.models import (
    Conversation,
    Message,
    QueuedMessage,
    Run,
    Runner,
    RunStatus,
    Upstream,
    User,
    UserSession,
)
from chat.runs.configured_buffer import event_buffer
from chat.runs.writer import SegmentWriter
from chat.web import posts, session_use
from tests.live.conftest import LiveRun, OpenTab, SignIn, close_shared, threads
from tests.live.connection import Tab
from tests.support.rooms import HTMX, Headers, Patches, Room, url_of

pytestmark = pytest.mark.databases(slow=True)
CSRF = "csrftoken=" + "a" * 32
LOST = AssertionError("what is known is not asked for")


@pytest.fixture(autouse=True)
async def _close_threads(live: None) -> Any:
    yield
    await posts.threads.close()
    await close_shared()


class Shown:
    """A page of the room: what it sends, and what it shows."""

    def __init__(self, room: Room, answer: Message) -> None:
        self.room = room
        self.answer = answer
        self.headers = room.position(answer, number=2)
        self.action = url_of("conversation_send", room.conversation)

    def form(self, text: str = "Once only", **more: object) -> dict[str, str]:
        return self.room.form(text, parent=self.answer, **more)

    def enter(self, tab: Tab) -> Tab:
        revision = json.loads(self.headers["X-Room-Position"])["revision"]
        tab.hello(self.room.conversation.public_id, revision)
        return tab


@pytest.fixture
async def shown(live: None, room: Room) -> Shown:
    answer = await threads.call(room.turn, "First")
    return await threads.call(Shown, room, answer)


def post(
    tab: Tab, shown: Shown, form: dict[str, str], id: int = 1, headers: Headers | None = None
) -> None:
    # Until it has the answer, the page is asking for changes by itself.
    tab.say_to(page={"is_asking": True})
    tab.say(
        type="post",
        id=id,
        action=shown.action,
        fields=list(form.items()),
        headers=headers or shown.headers,
        cookie=CSRF,
    )


async def answer_of(tab: Tab, id: int = 1) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        return [message for message in tab.messages if message.get("answer") == id]

    await tab.until(lambda tab: found())
    return found()[0]


def patches(body: str) -> Patches:
    class Response:
        content = body.encode()

    return Patches(Response())  # type: ignore[arg-type]


def said(text: str = "Once only") -> int:
    return Message.objects.filter(text=text).count()


# --- the answer, and what follows ----------------------------------------------------------------


async def test_answer_is_that_of_the_request(
    shown: Shown, open_tab: OpenTab, conversation: Conversation, upstream: Upstream, as_bob: Client
) -> None:
    def post_over_http() -> Any:
        other = Conversation.objects.create(
            team=conversation.team, owner=conversation.owner, visibility="team", title="Shared"
        )
        room = Room(other, upstream)
        page = Shown(room, room.turn("First"))
        return as_bob.post(page.action, page.form(), headers=page.headers)

    tab = shown.enter(open_tab())

    post(tab, shown, shown.form())
    answer = await answer_of(tab)
    response = await threads.call(post_over_http)

    assert answer["status"] == response.status_code == 200
    kept = ("HX-Trigger", "X-Room-Revision")
    assert {name: answer["headers"][name] for name in kept} == {
        name: response.headers[name] for name in kept
    }
    assert patches(answer["body"]).targets == Patches(response).targets
    run = await threads.call(Run.objects.filter(conversation=conversation).latest, "pk")
    assert answer["follows"] == run.public_id.hex


async def test_sending_is_a_use_of_the_session_and_following_is_none(
    shown: Shown, open_tab: OpenTab, bobs_session: str
) -> None:
    session_use.recent_writes.clear()
    tab = shown.enter(open_tab())
    await tab.until(lambda tab: tab.messages)
    rows = UserSession.objects.filter(session_key=bobs_session)
    before = await threads.call(rows.exists)

    post(tab, shown, shown.form())
    await answer_of(tab)
    await posts.threads.call(lambda: None)

    assert (before, await threads.call(rows.exists)) == (False, True)


async def test_run_is_followed_without_asking_for_it(
    shown: Shown, open_tab: OpenTab, writer: SegmentWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise LOST

    monkeypatch.setattr("chat.live.handshake.access.get_run", fail)
    monkeypatch.setattr("chat.runs.log_follower._begin", fail)
    tab = shown.enter(open_tab())

    post(tab, shown, shown.form())
    await answer_of(tab)
    row = await threads.call(Run.objects.select_related("conversation").latest, "pk")
    row.runner = await threads.call(Runner.objects.create, host="another", pid=1)
    row.status = RunStatus.RUNNING
    await threads.call(row.save)
    tab.show(row.public_id, [])
    run = LiveRun(row, writer, event_buffer)
    await run.tell("And here it begins")
    await run.end()
    await tab.until_over(run.id)

    assert not any(frame["replaces"] for frame in tab.frames(run.id))
    assert tab.frames(run.id)[0]["after"] == 0
    # The answer has brought this revision; the page is told of later ones only.
    told = [message.get("revision") for message in tab.messages if "room" in message]
    assert int(json.loads(shown.headers["X-Room-Position"])["revision"]) + 1 not in told


async def test_other_messages_are_handled_while_a_form_waits(
    shown: Shown, run: LiveRun, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = Blocked(monkeypatch)
    tab = shown.enter(open_tab())

    post(tab, shown, shown.form())
    await asyncio.to_thread(blocked.is_reached.wait, 30)
    tab.follow(run.id)
    await run.tell("Meanwhile")
    await tab.until_seq(run.id, len(run.entries))

    blocked.may_go.set()
    assert (await answer_of(tab))["status"] == 200


async def test_message_to_a_busy_server_is_told_when_to_come_again(
    shown: Shown, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def refuse(**_: object) -> AsyncIterator[None]:
        raise Overloaded(7)
        yield

    monkeypatch.setattr(request_queue, "place", refuse)
    tab = shown.enter(open_tab())

    post(tab, shown, shown.form())
    answer = await answer_of(tab)

    assert (answer["status"], answer["headers"]["Retry-After"]) == (503, "7")
    assert await threads.call(said) == 0


# --- exactly one -----------------------------------------------------------------------------------


class Blocked:
    """The first message stops in its thread, before or after it is stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_stored: bool = False) -> None:
        self.is_reached, self.may_go = threading.Event(), threading.Event()
        send = message_actions.send_message

        def stop_first(*arguments: Any, **options: Any) -> Run:
            is_first = not self.is_reached.is_set()
            sent = send(*arguments, **options) if is_stored or not is_first else None
            self.is_reached.set()
            if is_first:
                assert self.may_go.wait(30)
            return sent or send(*arguments, **options)

        monkeypatch.setattr(message_actions, "send_message", stop_first)


async def test_connection_is_lost_before_the_message_is_taken(
    shown: Shown, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = Blocked(monkeypatch)
    tab, form = shown.enter(open_tab()), shown.form()
    post(tab, shown, shown.form("Another"), id=1)
    await asyncio.to_thread(blocked.is_reached.wait, 30)
    # It waits behind the first.
    post(tab, shown, form, id=2)

    await tab.close()
    blocked.may_go.set()
    again = shown.enter(open_tab())
    headers = await threads.call(shown.room.position, shown.answer)
    post(again, shown, form, headers=headers)
    taken = await answer_of(again)

    # If the first one was stored meanwhile, this one waits for its answer.
    assert taken["status"] == 200
    assert await threads.call(said) + await threads.call(QueuedMessage.objects.count) == 1


@pytest.mark.parametrize("is_stored", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("way", ["websocket", "request"])
async def test_connection_is_lost_while_the_message_is_stored(
    shown: Shown,
    open_tab: OpenTab,
    as_bob: Client,
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,
    way: str,
) -> None:
    blocked = Blocked(monkeypatch, is_stored=is_stored)
    tab, form = shown.enter(open_tab()), shown.form()
    post(tab, shown, form)
    await asyncio.to_thread(blocked.is_reached.wait, 30)

    await tab.close()
    if way == "websocket":
        again = shown.enter(open_tab())
        post(again, shown, form)
        status = (await answer_of(again))["status"]
    else:
        response = await threads.call(as_bob.post, shown.action, form, headers=shown.headers)
        status = response.status_code
    blocked.may_go.set()

    assert status == 200
    await posts.threads.close()
    assert await threads.call(said) == 1
    assert await threads.call(Run.objects.filter(status=RunStatus.QUEUED).count) == 1


async def test_same_message_from_two_tabs_is_stored_once(shown: Shown, open_tab: OpenTab) -> None:
    form = shown.form()
    tabs = [shown.enter(open_tab()) for _ in range(2)]

    for tab in tabs:
        post(tab, shown, form)
    answers = [await answer_of(tab) for tab in tabs]

    assert [answer["status"] for answer in answers] == [200, 200]
    assert [bool(answer.get("follows")) for answer in answers].count(True) == 1
    assert await threads.call(said) == 1


async def test_of_two_messages_from_two_tabs_one_is_queued(shown: Shown, open_tab: OpenTab) -> None:
    tabs = [shown.enter(open_tab()) for _ in range(2)]

    for tab in tabs:
        post(tab, shown, shown.form())
    statuses = [(await answer_of(tab))["status"] for tab in tabs]

    assert statuses == [200, 200]
    assert await threads.call(said) == 1
    assert await threads.call(QueuedMessage.objects.count) == 1


async def test_forms_of_a_tab_are_handled_in_order(shown: Shown, open_tab: OpenTab) -> None:
    tab, form = shown.enter(open_tab()), shown.form()

    for id in range(1, 5):
        post(tab, shown, form if id % 2 else {**form, "text": "Other words"}, id=id)
    statuses = [(await answer_of(tab, id))["status"] for id in range(1, 5)]

    assert statuses == [200, 409, 200, 409]
    assert [message["answer"] for message in tab.messages if "answer" in message] == [1, 2, 3, 4]


# --- refusals ----------------------------------------------------------------------------------------


def sign_out(user: User) -> None:
    Session.objects.all().delete()


def change_password(user: User) -> None:
    user.set_password("another password")
    user.save()


def expire(user: User) -> None:
    Session.objects.update(expire_date=timezone.now())


def deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def only_read(user: User) -> None:
    user.memberships.update(role="viewer")


def leave(user: User) -> None:
    user.memberships.all().delete()


def trash(user: User) -> None:
    Conversation.objects.update(deleted_at=timezone.now())


def archive(user: User) -> None:
    Conversation.objects.update(archived_at=timezone.now())


def disable_server(user: User) -> None:
    Upstream.objects.update(is_enabled=False)


REFUSALS: list[tuple[Callable[[User], None], int]] = [
    (sign_out, 401),
    (change_password, 401),
    (expire, 401),
    (deactivate, 401),
    (only_read, 403),
    (leave, 404),
    (trash, 404),
    (disable_server, 422),
    # A message takes it out of the archive.
    (archive, 200),
]


@pytest.mark.parametrize(
    ("happens", "status"), REFUSALS, ids=lambda it: getattr(it, "__name__", "")
)
async def test_rights_are_read_with_each_form(
    shown: Shown,
    open_tab: OpenTab,
    as_bob: Client,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[User], None],
    status: int,
) -> None:
    async def nothing(*arguments: object, **options: object) -> None: ...

    # It would close the connection first.
    for check in ("_check_all", "_check_rooms"):
        monkeypatch.setattr(f"chat.live.access_monitor.AccessMonitor.{check}", nothing)
    tab = shown.enter(open_tab())
    await tab.until(lambda tab: tab.heartbeats)

    await threads.call(happens, bob)
    post(tab, shown, shown.form())
    answer = await answer_of(tab)
    response = await threads.call(as_bob.post, shown.action, shown.form(), headers=shown.headers)

    assert answer["status"] == status
    if status != 200:
        assert response.status_code == status
        assert answer["body"] == response.content.decode()
        assert answer["headers"].get("HX-Redirect") == response.headers.get("HX-Redirect")
        assert await threads.call(said) == 0


async def test_full_queue_is_refused(shown: Shown, open_tab: OpenTab, settings: Any) -> None:
    settings.RUNS_PER_PERSON = 0
    tab = shown.enter(open_tab())

    post(tab, shown, shown.form())
    answer = await answer_of(tab)

    assert answer["status"] == 409
    assert "in progress or queued" in patches(answer["body"]).text("#composer-note")
    assert await threads.call(said) == 0


async def test_too_many_waiting_forms_are_refused(
    shown: Shown, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = Blocked(monkeypatch)
    tab = shown.enter(open_tab())
    post(tab, shown, shown.form())
    await asyncio.to_thread(blocked.is_reached.wait, 30)

    for id in range(2, MOST_WAITING + 3):
        post(tab, shown, shown.form("More"), id=id)
    refused = await answer_of(tab, MOST_WAITING + 2)
    blocked.may_go.set()

    assert refused["status"] == 429
    assert (await answer_of(tab))["status"] == 200


MALFORMED: list[tuple[dict[str, object], int | None]] = [
    ({"id": "one"}, None),
    ({"id": None}, None),
    ({"fields": {"text": "Once only"}}, None),
    ({"fields": [["text"]]}, None),
    ({"fields": [["text", 1]]}, None),
    ({"action": 7}, None),
    ({"headers": []}, None),
    ({"fields": []}, 422),
    ({"fields": [["text", "Once only"]]}, 422),
    ({"fields": [["text", "Once only"], ["key", "no key"]]}, 422),
    ({"action": ""}, 404),
    ({"action": "nowhere"}, 404),
    ({"action": "//elsewhere.example/c/"}, 404),
    ({"action": "/admin/"}, 404),
    ({"action": "/c/"}, 422),
    ({"action": f"/c/{uuid.UUID(int=1)}/send/"}, 404),
    ({"action": f"/c/{uuid.UUID(int=1)}/rename/"}, 404),
    ({"cookie": "\x00;;=;sessionid=x"}, 200),
]


async def test_malformed_forms_break_nothing(
    shown: Shown, open_tab: OpenTab, subtests: pytest.Subtests
) -> None:
    tab = shown.enter(open_tab())

    for number, (change, status) in enumerate(MALFORMED, start=1):
        with subtests.test(msg=str(change)):
            whole = {
                "id": number,
                "action": shown.action,
                "fields": list(shown.form().items()),
                "headers": shown.headers,
            }
            tab.say(type="post", **(whole | change))
            if status is not None:
                assert (await answer_of(tab, number))["status"] == status

    assert tab.close_code is None
    assert await threads.call(said) == 1


async def test_stop_goes_over_the_websocket(
    queued_run: LiveRun, open_tab: OpenTab, viewer: User, sign_in: SignIn
) -> None:
    stop = url_of("run_stop", queued_run.row)
    reading, writing = open_tab(session=await threads.call(sign_in, viewer)), open_tab()
    for tab, status in ((reading, 403), (writing, 204)):
        tab.follow(queued_run.id)

        tab.say(type="post", id=1, action=stop, fields=[], headers=HTMX)

        assert (await answer_of(tab))["status"] == status
    await writing.until_over(queued_run.id)


async def test_long_text_is_refused_over_http(shown: Shown, as_bob: Client) -> None:
    """What a websocket doesn't take: its page posts it (static/live/posts.js)."""
    for size, status, words in (
        (1_500_000, 422, "at most 1000000 characters"),
        (10_000_000, 413, "too large to send"),
    ):
        form = shown.form("x" * size)

        response = await threads.call(as_bob.post, shown.action, form, headers=HTMX)

        assert response.status_code == status
        assert words in response.content.decode()
    assert await threads.call(Message.objects.count) == 2
