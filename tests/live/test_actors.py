"""Alice owns, Bob is on her team, Vera only reads there; Charlie, Dana and the administrator do not
belong: what each of them gets from every subscription."""

from dataclasses import dataclass

import pytest

from chat.live.viewer import CLOSE_ACCESS
from chat.models import Conversation, User, Visibility
from tests.live.conftest import LiveRun, OpenProgram, OpenTab, SignIn, threads
from tests.rendering.stories import told

PEOPLE = ("alice", "bob", "viewer", "charlie", "dana", "administrator")
# Who may read: a conversation that is shared with the team, and one that is not.
READERS = {Visibility.TEAM: {"alice", "bob", "viewer"}, Visibility.PRIVATE: {"alice"}}


@dataclass(frozen=True)
class Asking:
    """One person at one conversation, and whether they may read it."""

    session: str
    may_read: bool


@pytest.fixture(params=[Visibility.TEAM, Visibility.PRIVATE], ids=["shared", "private"])
def visibility(request: pytest.FixtureRequest) -> Visibility:
    return request.param


@pytest.fixture
def users(
    alice: User, bob: User, viewer: User, charlie: User, dana: User, administrator: User
) -> dict[str, User]:
    return dict(zip(PEOPLE, (alice, bob, viewer, charlie, dana, administrator), strict=True))


@pytest.fixture(params=PEOPLE)
async def asking(
    request: pytest.FixtureRequest,
    run: LiveRun,
    users: dict[str, User],
    sign_in: SignIn,
    visibility: Visibility,
) -> Asking:
    def prepare() -> str:
        Conversation.objects.update(visibility=visibility)
        return sign_in(users[request.param])

    return Asking(await threads.call(prepare), request.param in READERS[visibility])


async def test_the_event_stream_is_for_readers(
    run: LiveRun, open_program: OpenProgram, asking: Asking
) -> None:
    await run.replay(told("For whom"))
    program = open_program(run.id, asking.session)

    await program.until_finished()

    if asking.may_read:
        assert program.frames[-1].event == "chat.end"
    else:
        assert program.status == 404
        assert "For whom" not in str(program.sent)


async def test_a_run_is_followed_by_readers(
    run: LiveRun, open_tab: OpenTab, asking: Asking
) -> None:
    await run.tell("For whom")
    tab = open_tab(asking.session)

    tab.follow(run.id)

    if asking.may_read:
        await tab.until_seq(run.id, len(run.entries))
    else:
        # A room that does not exist says goodbye, after everything before it was handled.
        tab.hello(Conversation().public_id)
        await tab.until_closed()
        assert tab.frames(run.id) == []


async def test_a_room_is_entered_by_readers(
    run: LiveRun, open_tab: OpenTab, asking: Asking
) -> None:
    tab = open_tab(asking.session)

    tab.hello(run.row.conversation.public_id, revision=1)

    if asking.may_read:
        # The room has changed since revision 1: whoever is in it is told.
        await tab.until(lambda tab: any("room" in message for message in tab.messages))
    else:
        await tab.until_closed()
        assert tab.close_code == CLOSE_ACCESS
        assert not any("room" in message for message in tab.messages)
