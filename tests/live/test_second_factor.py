"""Live connections of people who need a second factor, or have one that their session did not show."""

from __future__ import annotations

import pytest

from chat import access
from chat.live.viewer import CLOSE_SIGNED_OUT
from chat.models import User
from project.sessions import SessionStore
from tests.live.conftest import LiveRun, OpenStream, OpenTab, threads


async def give_factor(person: User, session_key: str) -> None:
    """A session that has not shown it, unlike those of the fixtures."""

    def update() -> None:
        User.objects.filter(pk=person.pk).update(has_second_factor=True)
        session = SessionStore(session_key)
        del session[access.PASSED_KEY]
        session.save()

    await threads.call(update)


async def test_session_without_its_second_step_gets_no_websocket(
    run: LiveRun, open_tab: OpenTab, bob: User, bobs_session: str
) -> None:
    await run.tell("Not yet")
    await give_factor(bob, bobs_session)
    tab = open_tab()

    tab.follow(run.id)
    await tab.until_closed()

    assert tab.close_code == CLOSE_SIGNED_OUT
    assert tab.messages == [{"gone": True, "reason": "signed-out"}]


async def test_session_without_its_second_step_gets_no_stream(
    run: LiveRun, open_stream: OpenStream, bob: User, bobs_session: str
) -> None:
    await give_factor(bob, bobs_session)

    tab = await open_stream(room=run.room).until_finished()

    assert (tab.status, tab.error_code) == (401, "signed_out")


@pytest.mark.parametrize("policy", ["administrators", "all"])
async def test_required_factor_ends_open_connections(
    run: LiveRun, open_tab: OpenTab, bob: User, settings: object, policy: str
) -> None:
    """As when somebody becomes an administrator."""
    await run.tell("Hello")
    tab = open_tab()
    tab.hello(run.room, 1)
    await tab.until(lambda tab: tab.heartbeats)

    settings.SECOND_FACTOR = policy
    await threads.call(lambda: User.objects.filter(pk=bob.pk).update(is_staff=True))
    await tab.until_closed()

    assert tab.close_code == CLOSE_SIGNED_OUT
