"""Events without settings, as readers get them who may not see how answers were asked for."""

from __future__ import annotations

import pytest

from chat import events as canonical
from chat.runs.event_buffer import LogEntry
from chat.runs.public_events import body_without_settings

EXECUTION = canonical.ToolExecution(
    executor="http", server="office.example", rule="auto", approved_by="Ana"
)
ITEM = canonical.ToolCallItem(tool="book", arguments={}, output="Booked", execution=EXECUTION)


@pytest.mark.parametrize(
    "event",
    [
        canonical.ToolCallSuccess(
            item=0, tool="book", arguments={}, output="Booked", execution=EXECUTION
        ),
        canonical.ToolCallFailure(
            item=0,
            reason="Full",
            metadata=canonical.FailureMetadata(type="execution_failed", tool_name="book"),
            execution=EXECUTION,
        ),
        canonical.ChatEnd(
            result=canonical.Result(
                model_instance_id="m",
                output=[ITEM],
                stats=canonical.Stats(),
                ext=canonical.Extension(status="completed", stop=canonical.Stop(reason="stop")),
            )
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_server_and_rule_of_a_call_are_settings(event: canonical.Event) -> None:
    body = body_without_settings(LogEntry(seq=1, body=canonical.encode(event)))

    assert b"Ana" in body
    assert b"office.example" not in body
    assert b'"rule"' not in body
