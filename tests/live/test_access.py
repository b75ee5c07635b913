"""Whoever may no longer look receives nothing more, however the right ended."""

import asyncio
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import IntegrityError, OperationalError, connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.live import watch
from chat.live.viewer import CLOSE_ACCESS, CLOSE_DELETED, CLOSE_LATER, CLOSE_SIGNED_OUT
from chat.live.watch import Identity
from chat.models import Conversation, Membership, Run, Team, User, Visibility
from tests.live.conftest import LiveRun, OpenProgram, OpenTab, SignIn, threads
from tests.live.connection import Tab

pytestmark = pytest.mark.databases


@pytest.fixture(autouse=True)
def _nobody_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes made anywhere count, also those that nobody rang for."""
    monkeypatch.setattr("chat.doorbell.Doorbell.ring", lambda self, topic: None)


def remove_member(bob: User) -> None:
    Membership.objects.filter(user=bob).delete()


def erase(rows: "QuerySet[Any]") -> None:
    """On PostgreSQL a runner may write in between what Django looks for and what it deletes."""
    for tries_left in reversed(range(10)):
        try:
            rows.all().delete()
            return
        except IntegrityError:
            if not tries_left:
                raise


def delete_team(bob: User) -> None:
    erase(Team.objects.all())


def make_private(bob: User) -> None:
    Conversation.objects.update(visibility=Visibility.PRIVATE)


def delete_conversation(bob: User) -> None:
    Conversation.objects.update(deleted_at=timezone.now())


def erase_conversation(bob: User) -> None:
    erase(Conversation.objects.all())


def move_to_another_team(bob: User) -> None:
    Conversation.objects.update(team=Team.objects.create(name="Elsewhere"))


def end_session(bob: User) -> None:
    Session.objects.all().delete()


def expire_session(bob: User) -> None:
    Session.objects.update(expire_date=timezone.now())


def deactivate(bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(is_active=False)


def change_password(bob: User) -> None:
    bob.set_password("a new one for Bob")
    bob.save()


def delete_person(bob: User) -> None:
    User.objects.filter(pk=bob.pk).delete()


ENDINGS = [
    (remove_member, "access", CLOSE_ACCESS),
    (delete_team, "deleted", CLOSE_DELETED),
    (make_private, "access", CLOSE_ACCESS),
    (move_to_another_team, "access", CLOSE_ACCESS),
    (delete_conversation, "deleted", CLOSE_DELETED),
    (erase_conversation, "deleted", CLOSE_DELETED),
    (end_session, "signed-out", CLOSE_SIGNED_OUT),
    (expire_session, "signed-out", CLOSE_SIGNED_OUT),
    (deactivate, "signed-out", CLOSE_SIGNED_OUT),
    (change_password, "signed-out", CLOSE_SIGNED_OUT),
    (delete_person, "signed-out", CLOSE_SIGNED_OUT),
]
WAYS = pytest.mark.parametrize(
    ("end_access", "reason", "code"), [pytest.param(*way, id=way[0].__name__) for way in ENDINGS]
)


async def keep_talking(run: LiveRun) -> None:
    while True:
        await run.add("word ")


@WAYS
async def test_last_words_of_a_page_are_that_it_may_not_look_any_more(
    run: LiveRun,
    open_tab: OpenTab,
    bobs_session: str,
    bob: User,
    end_access: Callable[[User], None],
    reason: str,
    code: int,
) -> None:
    tab = open_tab(bobs_session)
    tab.hello(run.row.conversation.public_id)
    tab.follow(run.id)
    await run.tell("Only for the team")
    await tab.until_seq(run.id, len(run.entries))
    talking = asyncio.create_task(keep_talking(run))

    await threads.call(end_access, bob)
    await tab.until_closed()
    talking.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await talking

    assert tab.messages[-1] == {"gone": True, "reason": reason}
    assert tab.close_code == code
    assert [event["type"] for event in tab.sent].count("websocket.close") == 1
    assert tab.sent[-1]["type"] == "websocket.close"


@WAYS
async def test_a_program_s_stream_ends_without_an_end_of_the_run(
    run: LiveRun,
    open_program: OpenProgram,
    bobs_session: str,
    bob: User,
    end_access: Callable[[User], None],
    reason: str,
    code: int,
) -> None:
    program = open_program(run.id, bobs_session)
    await run.tell("Only for the team")
    await program.until(lambda program: len(program.frames) == len(run.entries))

    await threads.call(end_access, bob)
    await program.until_finished()
    seen = len(program.frames)
    with suppress(Exception):
        await run.add("secret")

    assert len(program.frames) == seen
    assert all(frame.event != "chat.end" for frame in program.frames)
    assert program.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_page_of_a_room_without_a_live_answer_is_told_too(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, bob: User
) -> None:
    tab = open_tab(bobs_session)
    tab.hello(run.row.conversation.public_id)
    await tab.until(lambda tab: any("room" in message for message in tab.messages))

    await threads.call(remove_member, bob)
    await tab.until_closed()

    assert tab.close_code == CLOSE_ACCESS


async def test_whoever_keeps_the_right_goes_on(
    run: LiveRun,
    open_tab: OpenTab,
    bobs_session: str,
    sign_in: SignIn,
    viewer: User,
    alice: User,
    bob: User,
) -> None:
    tabs = [
        open_tab(bobs_session),
        open_tab(await threads.call(sign_in, viewer)),
        open_tab(await threads.call(sign_in, alice)),
    ]
    for tab in tabs:
        tab.follow(run.id)
    await run.tell("Only for the team")

    await threads.call(remove_member, bob)
    await tabs[0].until_closed()
    await run.add(" and no longer for Bob")
    await run.end()

    for tab in tabs[1:]:
        await tab.until_over(run.id)
        assert "no longer for Bob" in tab.pages[run.id].answer.text()
    assert "no longer for Bob" not in tabs[0].pages[run.id].answer.text()
    assert (await threads.call(Run.objects.get, pk=run.row.pk)).status == "stopped"


async def test_a_lower_role_that_still_may_read_goes_on(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, bob: User
) -> None:
    tab = open_tab(bobs_session)
    tab.follow(run.id)
    await run.tell("For readers")

    await threads.call(lambda: Membership.objects.filter(user=bob).update(role="viewer"))
    await run.end()

    await tab.until_over(run.id)
    assert tab.close_code is None


async def test_a_right_that_cannot_be_checked_ends(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(questions: object) -> None:
        raise OperationalError("away")

    tab = open_tab(bobs_session)
    tab.follow(run.id)
    await run.tell("Only for the team")
    await tab.until_seq(run.id, len(run.entries))

    monkeypatch.setattr("chat.live.watch.FAIL_CLOSED_SECONDS", 0.0)
    monkeypatch.setattr("chat.live.watch.check", fail)
    await tab.until_closed()

    # The page is not told that it lost its right, for nobody knows: it comes back later.
    assert tab.close_code == CLOSE_LATER
    assert not any("gone" in message for message in tab.messages)


async def test_a_right_that_is_asked_for_in_vain_ends_too(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()

    def hang(questions: object) -> None:
        may_end.wait(20)

    tab = open_tab(bobs_session)
    tab.follow(run.id)
    await run.tell("Only for the team")
    await tab.until_seq(run.id, len(run.entries))

    monkeypatch.setattr("chat.live.watch.FAIL_CLOSED_SECONDS", 0.1)
    monkeypatch.setattr("chat.live.watch.ANSWER_SECONDS", 0.1)
    monkeypatch.setattr("chat.live.watch.check", hang)
    await tab.until_closed()
    may_end.set()

    assert tab.close_code == CLOSE_LATER


async def test_a_database_that_is_away_for_a_moment_ends_nothing(
    run: LiveRun, open_tab: OpenTab, bobs_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = []

    def fail(questions: object) -> None:
        failures.append(questions)
        raise OperationalError("away")

    tab = open_tab(bobs_session)
    tab.follow(run.id)
    await run.tell("Only for the team")

    with monkeypatch.context() as patch:
        patch.setattr("chat.live.watch.check", fail)
        async with asyncio.timeout(10):
            while len(failures) < 3:
                await asyncio.sleep(0.01)
    await run.end()

    await tab.until_over(run.id)
    assert tab.close_code is None


@pytest.mark.parametrize("who", ["charlie", "bob"])
async def test_following_what_one_may_not_see_gives_nothing(
    run: LiveRun,
    open_tab: OpenTab,
    sign_in: SignIn,
    bob: User,
    charlie: User,
    who: str,
) -> None:
    if who == "bob":
        await threads.call(make_private, bob)
    tab = open_tab(await threads.call(sign_in, {"bob": bob, "charlie": charlie}[who]))
    await run.tell("Only for others")

    tab.follow(run.id)
    tab.say(type="resync", run=run.id.hex)
    tab.say(type="ack", runs={run.id.hex: 3})
    await run.add("And more")
    await settle(tab)

    assert tab.frames(run.id) == []


async def settle(tab: Tab) -> None:
    """Returns when everything that was said before has been handled: a wrong room says goodbye."""
    tab.hello(Conversation().public_id)
    await tab.until_closed()
    assert tab.messages[-1] == {"gone": True, "reason": "access"}


async def test_a_room_that_one_may_not_see_says_what_a_missing_one_says(
    run: LiveRun, open_tab: OpenTab, charlies_session: str
) -> None:
    foreign, missing = open_tab(charlies_session), open_tab(charlies_session)

    foreign.hello(run.row.conversation.public_id)
    missing.hello(Conversation().public_id)
    await foreign.until_closed()
    await missing.until_closed()

    assert foreign.sent == missing.sent
    assert foreign.close_code == CLOSE_ACCESS


@WAYS
async def test_a_right_that_ends_just_before_a_check_reads_is_told_as_what_it_is(
    run: LiveRun,
    bobs_session: str,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
    end_access: Callable[[User], None],
    reason: str,
    code: int,
) -> None:
    room = run.row.conversation.public_id
    identity = Identity(user_pk=bob.pk, session_key=bobs_session, password=bob.password)
    read_now = watch._read

    def change_and_read(pairs: object) -> object:
        end_access(bob)
        return read_now(pairs)

    monkeypatch.setattr(watch, "_read", change_and_read)
    answers = await threads.call(watch.check, [(identity, frozenset([room]))])

    assert answers.verdicts == [reason]


async def test_all_that_a_check_reads_is_of_one_moment(
    run: LiveRun, bobs_session: str, bob: User
) -> None:
    room = run.row.conversation.public_id
    bobs = Identity(user_pk=bob.pk, session_key=bobs_session, password=bob.password)
    nobodys = Identity(user_pk=bob.pk, session_key="", password=bob.password)

    def check() -> tuple[watch.Answers, int]:
        with CaptureQueriesContext(connection) as asked:
            answers = watch.check(
                [
                    (bobs, frozenset()),
                    (nobodys, frozenset([room])),
                    (bobs, frozenset([room])),
                    (bobs, frozenset([room, uuid.uuid4()])),
                ]
            )
        return answers, len(asked)

    # A statement has one moment, whatever else is committed meanwhile.
    answers, statements = await threads.call(check)

    assert statements == 1
    assert answers.verdicts[0] == []
    assert answers.verdicts[1] == watch.GONE_SIGNED_OUT
    assert [(seen.conversation_id, seen.may_write) for seen in answers.verdicts[2]] == [
        (room, True)
    ]
    assert answers.verdicts[3] == watch.GONE_DELETED
    assert (answers.has_queue, answers.is_draining) == (False, False)
