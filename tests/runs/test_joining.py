"""An upstream's stream as it continues a log that has begun."""

from __future__ import annotations

import pytest

from chat import events as canonical
from chat.dialects import DIALECTS
from chat.dialects.base import Parser
from chat.events import Cause, Ending
from chat.result import Fold, finish
from chat.runs.resume import ContinuingParser
from chat.wire.sse import Decoder, Frame
from tests.support.upstream.script import openai_chunks, openai_run

FRAME = Frame(event="", data="", id="")
DONE = Ending(status="completed", stop=canonical.Stop(reason="stop"))


class Saying(Parser):
    """A parser that gives these events at once."""

    def __init__(self, *events: canonical.Event) -> None:
        self._events = list(events)

    def feed(self, frame: Frame) -> list[canonical.Event]:
        self.is_done = True
        return self._events

    def feed_body(self, body: bytes) -> list[canonical.Event]:
        return self.feed(FRAME)

    def close(
        self, cause: Cause = "eof", *, error: canonical.ErrorInfo | None = None
    ) -> list[canonical.Event]:
        self.ending = DONE
        return self._events


def joined(*events: canonical.Event) -> list[canonical.Event]:
    return ContinuingParser(Saying(*events), first_item=2, model="m").feed(FRAME)


def test_items_of_the_first_choice_are_appended() -> None:
    events = joined(
        canonical.MessageStart(item=0),
        canonical.MessageDelta(item=0, choice=1, content="x"),
        canonical.ReplayData(kind="signature", data="s", item=1),
        canonical.ReplayData(kind="native", data={}),
        canonical.ReplayData(kind="signature", data="s", item=1, choice=1),
    )

    assert [(event.item, event.choice) for event in events] == [
        *((2, 0), (0, 1), (3, 0), (None, 0), (1, 1))
    ]


def test_log_has_one_start() -> None:
    for name in ("", "m"):
        assert joined(canonical.ChatStart(model_instance_id=name)) == []


def test_change_of_model_is_logged() -> None:
    assert joined(canonical.ChatStart(model_instance_id="m-2")) == [
        canonical.MetaUpdate(values={"model": "m-2"})
    ]


def test_end_is_that_of_the_inner_parser() -> None:
    parser = ContinuingParser(Saying(canonical.MessageEnd(item=0)), first_item=1, model="m")
    assert (parser.is_done, parser.ending) == (False, None)

    parser.feed_body(b"{}")
    assert parser.is_done

    assert parser.close() == [canonical.MessageEnd(item=2)]
    assert parser.ending == DONE


def test_streams_of_every_dialect_continue_a_log(subtests: pytest.Subtests) -> None:
    for name, dialect in DIALECTS.items():
        with subtests.test(msg=name):
            inner = dialect.parser(model="m", endpoint="e", options={})
            parser = ContinuingParser(inner, first_item=1, model="m")
            fold = Fold()
            fold.add(canonical.ChatStart(model_instance_id="m"))
            fold.add(
                canonical.ToolCallSuccess(
                    item=0, tool="look", arguments={}, output="A", call_id="a"
                )
            )

            # Of any kind: also one that the dialect does not read.
            for frame in Decoder().feed(openai_chunks(openai_run("Hello ", "there."))):
                fold.extend(parser.feed(frame))
            finish(parser, fold)

            result = fold.result()
            assert fold.start.model_instance_id == "m"
            assert (result.output[0].output, result.output[0].status) == ("A", "done")
            assert fold.end is not None
