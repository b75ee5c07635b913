"""What the metrics and the log say of viewers."""

from __future__ import annotations

import logging

import pytest

from chat.live import viewer as viewer_module
from tests.health.helpers import Change, value
from tests.live.conftest import (  # noqa: F401 - fixtures
    LiveRun,
    begin,
    bobs_session,
    run,
    sign_in,
    writer,
)
from tests.live.connection import Program, Tab


async def test_tab_is_counted_while_it_is_open(
    run: LiveRun,  # noqa: F811
    bobs_session: str,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    change = Change()
    tab = Tab(bobs_session)
    tab.follow(run.id)
    await run.tell("The river runs.")
    await tab.until_seq(run.id, len(run.entries))

    assert value("tributary_viewers", transport="websocket") == 1
    assert value("tributary_broadcasters") >= 1
    assert change.of("tributary_frames_rendered_total") >= 1
    texts = [event["text"] for event in tab.sent if event["type"] == "websocket.send"]
    assert change.of("tributary_frames_sent_total", transport="websocket") == len(texts)
    assert change.of("tributary_sent_bytes_total", transport="websocket") == sum(
        len(text.encode()) for text in texts
    )

    tab.say(type="resync", run=run.id.hex)
    await tab.until(lambda tab: any(frame["replaces"] for frame in tab.frames(run.id)))
    await tab.close()

    assert change.of("tributary_replacements_total", reason="asked") == 1
    assert value("tributary_viewers", transport="websocket") == 0
    messages = [record.getMessage() for record in caplog.records]
    logged = [message for message in messages if message.startswith("viewer.")]
    assert [line.split(" ")[0] for line in logged] == [
        "viewer.opened",
        "viewer.replaced",
        "viewer.closed",
    ]
    assert len({line.split(" ")[1] for line in logged}) == 1


async def test_program_is_counted_separately(
    run: LiveRun,  # noqa: F811
    bobs_session: str,  # noqa: F811
) -> None:
    change = Change()
    program = Program(run.id, bobs_session)
    await run.tell("The river runs.")
    await program.until(lambda program: len(program.frames) == len(run.entries))

    assert value("tributary_viewers", transport="events") == 1
    assert change.of("tributary_sent_bytes_total", transport="events") >= len(program.body)
    await program.close()
    assert value("tributary_viewers", transport="events") == 0


async def test_tab_without_acknowledgements_is_behind(
    run: LiveRun,  # noqa: F811
    bobs_session: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(viewer_module, "UNACKNOWLEDGED_BYTES", 10)
    tab = Tab(bobs_session, is_deaf=True)
    tab.follow(run.id)
    await run.tell("The river runs.")
    await tab.until(lambda tab: tab.frames(run.id))

    assert value("tributary_viewers_behind") == 1

    await tab.close()
    assert value("tributary_viewers_behind") == 0


async def test_events_found_in_memory_are_counted(
    run: LiveRun,  # noqa: F811
    bobs_session: str,  # noqa: F811
) -> None:
    await run.tell("The river runs.")
    change = Change()
    program = Program(run.id, bobs_session)
    await program.until(lambda program: len(program.frames) == len(run.entries))
    await program.close()

    assert change.of("tributary_log_reads_total", found="buffer") >= 1
