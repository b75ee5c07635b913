"""The live channel of the inbox."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from chat.inbox import channel, entries
from chat.models import Membership, Run, User
from tests.live.conftest import OpenTab, threads
from tests.live.connection import Tab
from tests.support.rooms import Room, end_run


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "SHOWN_AFTER", timedelta(seconds=-1))
    monkeypatch.setattr(channel, "READ_EVERY_SECONDS", 0.01)


def told(tab: Tab) -> list[dict[str, Any]]:
    return tab.said_on("inbox")


def ask_again(room: Room, run: Run) -> UUID:
    """The id of a message below a finished answer."""
    end_run(run)
    return room.ask("@Bob, once more", run.message).message.parent.public_id


def counts(tab: Tab) -> list[int]:
    return [message["count"] for message in told(tab)]


@pytest.mark.usefixtures("lost_notifications")
async def test_all_tabs_of_a_person_count_and_lost_access_ends_it(
    open_tab: OpenTab, room: Room, bob: User
) -> None:
    run = await threads.call(room.ask, "@Bob, here?")
    # One beside a conversation, and one that lists the entries.
    tabs = [open_tab(), open_tab()]
    tabs[0].hello(inbox={})
    tabs[1].hello(inbox={"version": "none"})
    for tab in tabs:
        await tab.until(lambda tab: counts(tab) == [1])
        # It was there before, and is no news.
        assert told(tab)[0]["news"] == []

    message = await threads.call(ask_again, room, run)
    for tab in tabs:
        await tab.until(lambda tab: counts(tab) == [1, 2])
        (news,) = told(tab)[1]["news"]
        assert news["address"] == f"/m/{message}/#m{message.hex}"
        assert (news["text"], news["title"]) == ("You were mentioned", "Shared")
        # Nothing of the message.
        assert "once more" not in str(told(tab))

    await threads.call(Membership.objects.filter(user=bob).delete)
    for tab in tabs:
        await tab.until(lambda tab: counts(tab) == [1, 2, 0])


def test_no_statement_without_a_tab(db: None, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert channel.InboxLook().read([]) == {}
