"""The item tracker emits a valid sequence of item events whatever a dialect reports."""

import pytest

from chat.dialects import items
from chat.dialects.items import ItemTracker
from chat.events import (
    FailureMetadata,
    MessageDelta,
    MessageEnd,
    MessageStart,
    ReasoningStart,
    ToolCallArguments,
    ToolCallDelta,
    ToolCallFailure,
    ToolCallStart,
    ToolCallSuccess,
)


def names(tracker: ItemTracker) -> list[str]:
    return [str(type(event).__struct_config__.tag) for event in tracker.take_events()]


def test_delta_opens_its_item() -> None:
    tracker = ItemTracker()

    tracker.text("message", "a")

    assert tracker.take_events() == [MessageStart(item=0), MessageDelta(item=0, content="a")]


def test_empty_text_opens_nothing() -> None:
    tracker = ItemTracker()

    tracker.text("message", "")
    tracker.switch_text("reasoning", "")

    assert tracker.take_events() == []


def test_opening_again_closes_the_previous_item() -> None:
    tracker = ItemTracker()

    tracker.open_text("message")
    tracker.open_text("message")

    assert tracker.take_events() == [MessageStart(item=0), MessageEnd(item=0), MessageStart(item=1)]


def test_item_is_closed_once() -> None:
    tracker = ItemTracker()
    tracker.open_text("message")

    assert tracker.close_text("message")
    assert not tracker.close_text("message")
    tracker.close_all()

    assert names(tracker) == ["message.start", "message.end"]


def test_items_close_in_order_by_choice() -> None:
    tracker = ItemTracker()
    tracker.open_text("reasoning", choice=1)
    tracker.open_text("reasoning")
    tracker.open_text("message")
    tracker.take_events()

    tracker.close_all()

    closed = [(event.choice, event.item) for event in tracker.take_events()]
    assert closed == [(0, 0), (0, 1), (1, 0)]


def test_switching_kinds_closes_the_other_item() -> None:
    tracker = ItemTracker()

    tracker.switch_text("reasoning", "a")
    tracker.switch_text("message", "b")
    tracker.switch_text("reasoning", "c")

    assert names(tracker) == [
        *("reasoning.start", "reasoning.delta", "reasoning.end"),
        *("message.start", "message.delta", "message.end"),
        *("reasoning.start", "reasoning.delta"),
    ]


def test_call_starts_once_its_name_is_complete() -> None:
    tracker = ItemTracker()
    call = tracker.open_call(tool="get_")
    assert tracker.take_events() == []

    call.tool += "tide"
    tracker.call_text(call, "{")

    assert tracker.take_events() == [
        ToolCallStart(item=0, tool="get_tide"),
        ToolCallDelta(item=0, fragment="{"),
    ]


def test_call_starts_before_the_next_item() -> None:
    tracker = ItemTracker()

    tracker.open_call(tool="a")
    tracker.open_text("reasoning")

    assert tracker.take_events() == [ToolCallStart(item=0, tool="a"), ReasoningStart(item=1)]


def test_arguments_before_the_name_are_kept() -> None:
    tracker = ItemTracker()
    call = tracker.open_call()

    tracker.call_text(call, '{"a"')
    call.tool = "late"
    tracker.call_text(call, ":1}")
    tracker.close_all()

    start, delta, arguments = tracker.take_events()
    assert (start, delta) == (
        ToolCallStart(item=0, tool="late"),
        ToolCallDelta(item=0, fragment='{"a":1}'),
    )
    assert isinstance(arguments, ToolCallArguments)
    assert arguments.arguments == {"a": 1}


def test_call_of_an_incomplete_answer_fails() -> None:
    tracker = ItemTracker()
    call = tracker.open_call(tool="t")
    tracker.call_text(call, '{"a":1}')

    tracker.close_all(is_complete=False)

    failure = tracker.take_events()[-1]
    assert isinstance(failure, ToolCallFailure)
    assert failure.metadata == FailureMetadata(type="incomplete", tool_name="t", arguments={"a": 1})
    assert failure.arguments_raw == '{"a":1}'


def test_oversized_arguments_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "MAX_ARGUMENT_CHARACTERS", 10)
    tracker = ItemTracker()
    call = tracker.open_call(tool="t")

    for _ in range(20):
        tracker.call_text(call, '{"aa"')
    tracker.close_all()

    failure = tracker.take_events()[-1]
    assert isinstance(failure, ToolCallFailure)
    assert failure.reason == items.TOO_LONG
    assert len(call.joined()) <= 10


def test_lone_surrogate_in_arguments_is_replaced() -> None:
    tracker = ItemTracker()
    call = tracker.open_call(tool="t")
    tracker.call_text(call, '{"a":"\ud83c')

    tracker.close_all()

    failure = tracker.take_events()[-1]
    assert isinstance(failure, ToolCallFailure)
    assert failure.arguments_raw == '{"a":"\ufffd'


def test_answered_call_is_closed() -> None:
    tracker = ItemTracker()
    call = tracker.open_call(tool="t", executes="upstream")

    tracker.call_success(call, "o")
    tracker.close_all()

    assert tracker.take_events() == [
        ToolCallStart(item=0, tool="t", executes="upstream"),
        ToolCallSuccess(item=0, tool="t", arguments={}, output="o"),
    ]
