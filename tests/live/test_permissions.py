"""Who may subscribe to what: members and viewers of the team may read, others get nothing."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from chat.live.viewer import CLOSE_ACCESS
from chat.models import Conversation, User, Visibility
from tests.live.conftest import LiveRun, OpenProgram, OpenStream, OpenTab, SignIn, threads
from tests.rendering.stories import told

# Alice owns the team, Bob is a member, Vera a viewer; the others do not belong.
PEOPLE = ("alice", "bob", "vera", "charlie", "dana", "administrator")
READERS = {Visibility.TEAM: {"alice", "bob", "vera"}, Visibility.PRIVATE: {"alice"}}


class Case(NamedTuple):
    visibility: Visibility
    person: str

    @property
    def may_read(self) -> bool:
        return self.person in READERS[self.visibility]


CASES = [Case(visibility, person) for visibility in READERS for person in PEOPLE]
Prepare = Callable[[Case], Awaitable[str]]


@pytest.fixture
async def prepare(
    sign_in: SignIn,
    alice: User,
    bob: User,
    viewer: User,
    charlie: User,
    dana: User,
    administrator: User,
) -> Prepare:
    """Gives the conversation the case's visibility; returns the session of its person."""
    users = (alice, bob, viewer, charlie, dana, administrator)
    sessions = {
        person: await threads.call(sign_in, user)
        for person, user in zip(PEOPLE, users, strict=True)
    }

    async def prepare(case: Case) -> str:
        await threads.call(lambda: Conversation.objects.update(visibility=case.visibility))
        return sessions[case.person]

    return prepare


async def test_readers_get_the_event_stream(
    run: LiveRun, open_program: OpenProgram, prepare: Prepare, subtests: pytest.Subtests
) -> None:
    await run.replay(told("For whom"))

    for case in CASES:
        with subtests.test(msg=str(case)):
            program = await open_program(run.id, session=await prepare(case)).until_finished()

            if case.may_read:
                assert program.frames[-1].event == "chat.end"
            else:
                assert program.status == 404
                assert "For whom" not in str(program.sent)


async def test_readers_follow_a_run(
    run: LiveRun, open_tab: OpenTab, prepare: Prepare, subtests: pytest.Subtests
) -> None:
    await run.tell("For whom")

    for case in CASES:
        with subtests.test(msg=str(case)):
            tab = open_tab(session=await prepare(case))
            tab.follow(run.id)
            if case.may_read:
                await tab.until_seq(run.id, len(run.entries))
                continue

            tab.say(type="resync", run=run.id.hex)
            tab.say(type="ack", runs={run.id.hex: 3})
            await run.add("And more")
            # Messages are handled in order, and a room that does not exist closes the connection.
            tab.hello(Conversation().public_id)
            await tab.until_closed()

            assert tab.messages == [{"gone": True, "reason": "access"}]


async def test_readers_enter_a_room(
    run: LiveRun, open_tab: OpenTab, prepare: Prepare, subtests: pytest.Subtests
) -> None:
    for case in CASES:
        with subtests.test(msg=str(case)):
            tab = open_tab(session=await prepare(case))
            # Whoever may enter is told that the room has changed since this revision.
            tab.hello(run.room, revision=1)

            if case.may_read:
                await tab.until(lambda tab: any("room" in message for message in tab.messages))
            else:
                await tab.until_closed()
                assert tab.close_code == CLOSE_ACCESS
                assert not any("room" in message for message in tab.messages)


async def test_readers_stream_a_room(
    run: LiveRun, open_stream: OpenStream, prepare: Prepare, subtests: pytest.Subtests
) -> None:
    await run.tell("For whom")

    for case in CASES:
        with subtests.test(msg=str(case)):
            session = await prepare(case)
            tab = await open_stream((run.id, []), session=session, room=run.room).until_answered()

            if case.may_read:
                await tab.until_seq(run.id, len(run.entries))
            else:
                await tab.until_finished()
                assert (tab.status, tab.error_code) == (404, "not_found")
                assert "For whom" not in str(tab.sent)


async def test_readers_stream_a_run(
    run: LiveRun, open_stream: OpenStream, prepare: Prepare, subtests: pytest.Subtests
) -> None:
    await run.tell("For whom")

    for case in CASES:
        with subtests.test(msg=str(case)):
            session = await prepare(case)

            if case.may_read:
                tab = open_stream((run.id, []), session=session)
                await tab.until_seq(run.id, len(run.entries))
            else:
                tab = await open_stream((run.id, []), session=session, wait="0").until_finished()
                assert tab.said == []
