"""The fold of a log into a result, and how runs end."""

import json

import pytest

from chat import dialects
from chat.dialects.base import Parser
from chat.events import (
    ActivityStep,
    ArtifactUpdate,
    AskQuestion,
    ChatEnd,
    ChatStart,
    Citation,
    CitationAdd,
    ContextFork,
    Ending,
    Error,
    ErrorInfo,
    Event,
    FailureMetadata,
    InvalidToolCallItem,
    JsonObject,
    MediaItem,
    MediaUpdate,
    MessageDelta,
    MessageEnd,
    MessageItem,
    MessageStart,
    MetaUpdate,
    MockupUpdate,
    ModelLoadEnd,
    ReasoningDelta,
    ReasoningStart,
    RefusalDelta,
    RefusalItem,
    ReplayData,
    Result,
    Stop,
    ToolCallArguments,
    ToolCallDelta,
    ToolCallFailure,
    ToolCallItem,
    ToolCallStart,
    ToolCallSuccess,
    Usage,
    UsageUpdate,
    VendorRaw,
    encode,
)
from chat.result import Fold, close_open, finish, fold, plain_text
from chat.wire.sse import Frame

START = ChatStart(model_instance_id="m")
COMPLETED = Ending(status="completed", stop=Stop(reason="stop"))


def folded(*events: Event) -> Fold:
    state = Fold()
    state.extend(events)
    return state


def text(*pieces: str, item: int = 0) -> list[Event]:
    return [
        MessageStart(item=item),
        *(MessageDelta(item=item, content=p) for p in pieces),
        MessageEnd(item=item),
    ]


# --- items --------------------------------------------------------------------------


def test_deltas_become_one_text() -> None:
    assert fold([START, *text("a", "b")]).output == [MessageItem(content="ab")]


def test_merged_deltas_fold_to_the_same() -> None:
    assert fold([START, *text("a", "b", "c")]) == fold([START, *text("abc")])


def test_items_are_ordered_by_number() -> None:
    late = [ReasoningStart(item=0), ReasoningDelta(item=0, content="first")]

    result = fold([START, *text("second", item=1), *late])

    assert [item.content for item in result.output] == ["first", "second"]


def test_delta_without_a_start_is_kept() -> None:
    assert fold([MessageDelta(item=0, content="a")]).output == [MessageItem(content="a")]


def test_refusal_is_an_item() -> None:
    events = [
        RefusalDelta(item=0, content="No", category="harm"),
        RefusalDelta(item=0, content="."),
    ]

    assert fold(events).output == [RefusalItem(content="No.", category="harm")]


CALL = ToolCallStart(item=0, tool="t", call_id="c", executes="client")
ARGUMENTS = ToolCallArguments(
    item=0, tool="t", arguments={"a": 1}, call_id="c", arguments_raw='{"a":1}'
)


def test_call_is_pending_until_answered() -> None:
    (item,) = fold([CALL, ARGUMENTS]).output

    assert isinstance(item, ToolCallItem)
    assert (item.status, item.output, item.arguments) == ("pending", None, {"a": 1})
    assert b'"output":null' in encode(fold([CALL, ARGUMENTS]))


def test_answered_call_is_done() -> None:
    (item,) = fold(
        [CALL, ARGUMENTS, ToolCallSuccess(item=0, tool="t", arguments={"a": 1}, output="o")]
    ).output

    assert isinstance(item, ToolCallItem)
    assert (item.status, item.output) == ("done", "o")


def test_failed_call_before_execution_is_invalid(subtests: pytest.Subtests) -> None:
    for kind in ["invalid_name", "invalid_arguments", "incomplete"]:
        with subtests.test(kind):
            failure = ToolCallFailure(
                item=0, reason="r", metadata=FailureMetadata(type=kind, tool_name="t")
            )

            (item,) = fold([CALL, failure]).output

            assert isinstance(item, InvalidToolCallItem)
            assert (item.reason, item.metadata.type, item.call_id) == ("r", kind, "c")


def test_failed_execution_stays_a_call() -> None:
    metadata = FailureMetadata(type="execution_failed", tool_name="t")

    (item,) = fold([CALL, ARGUMENTS, ToolCallFailure(item=0, reason="r", metadata=metadata)]).output

    assert isinstance(item, ToolCallItem)
    assert (item.status, item.output) == ("failed", "r")


def test_media_keeps_the_url_without_the_bytes() -> None:
    media = MediaUpdate(item=0, media_id="i", media_type="image/png", data="aGk=", url="/files/1")

    assert fold([media]).output == [MediaItem(media_type="image/png", file="/files/1")]


def test_transcript_pieces_are_joined() -> None:
    pieces = [
        MediaUpdate(item=0, media_id="a", media_type="audio/*", state="partial", transcript=word)
        for word in ("Hel", "lo")
    ]

    assert fold(pieces).output == [MediaItem(media_type="audio/*", transcript="Hello")]


def test_citations_belong_to_their_message() -> None:
    citation = Citation(kind="url_citation", url="https://example.org")

    result = fold([*text("a"), *text("b", item=1), CitationAdd(item=1, citation=citation)])

    assert [item.citations for item in result.output] == [[], [citation]]


def test_other_choices_are_alternatives() -> None:
    events = [
        MessageDelta(item=0, content="one"),
        MessageDelta(item=0, choice=2, content="three"),
        MetaUpdate(values={"alternative_stops": {"2": {"reason": "length"}}}),
    ]

    (alternative,) = fold(events).ext.alternatives

    assert alternative.choice == 2
    assert alternative.output == [MessageItem(content="three")]
    assert alternative.stop == Stop(reason="length")
    assert fold(events).ext.meta == {}


# --- figures -------------------------------------------------------------------------


def timed(events: list[Event], *times: int) -> list[Event]:
    for event, t in zip(events, times, strict=True):
        event.t = t
    return events


def test_unreported_figures_are_null() -> None:
    result = fold([START, *text("a")])

    assert b'"input_tokens":null' in encode(result)
    assert result.stats.tokens_per_second is None
    assert result.ext.stats_source == "measured"


def test_times_are_measured_from_the_events() -> None:
    events = timed(text("a", "b", "c"), 400, 500, 900, 1500, 1500)
    usage = UsageUpdate(usage=Usage(input_tokens=3, output_tokens=10), final=True, t=1600)

    result = fold([START, *events, usage])

    assert result.stats.time_to_first_token_seconds == 0.5
    assert result.stats.tokens_per_second == 10.0
    assert result.ext.stats_source == "mixed"


def test_merging_deltas_does_not_change_the_times() -> None:
    apart = timed(text("a", "b"), 400, 500, 900, 1000)
    merged = timed(text("ab"), 400, 500, 1000)
    usage = UsageUpdate(usage=Usage(output_tokens=5))

    assert fold([*apart, usage]).stats == fold([*merged, usage]).stats


def test_upstream_figures_win_over_measured_ones() -> None:
    stats = {
        "tokens_per_second": 50.0,
        "time_to_first_token_seconds": 0.1,
        "input_tokens": 2,
        "odd": 1,
    }

    result = fold([*timed(text("a"), 100, 900, 1000), MetaUpdate(values={"stats": stats})])

    assert result.stats.tokens_per_second == 50.0
    assert result.stats.time_to_first_token_seconds == 0.1
    assert result.ext.stats_source == "upstream"


def test_load_time_is_kept() -> None:
    event = ModelLoadEnd(model_instance_id="m", load_time_seconds=2.5)

    assert fold([event]).stats.model_load_time_seconds == 2.5


def test_usage_replaces_earlier_usage() -> None:
    updates = [UsageUpdate(usage=Usage(output_tokens=n)) for n in (1, 5)]

    assert fold(updates).stats.total_output_tokens == 5


# --- what else a run leaves -------------------------------------------------------------


def test_later_meta_values_win() -> None:
    events = [MetaUpdate(values={"a": 1, "b": 1}), MetaUpdate(values={"b": 2, "response_id": "r"})]

    result = fold(events)

    assert result.ext.meta == {"a": 1, "b": 2}
    assert result.response_id == "r"


def test_native_turn_is_kept_apart_from_signatures() -> None:
    events = [
        ReasoningStart(item=0),
        ReplayData(kind="signature", data="s", item=0),
        ReplayData(kind="native", data={"role": "assistant"}),
    ]

    result = fold(events)

    assert result.ext.native == {"role": "assistant"}
    assert result.output[0].has_replay


def test_first_error_is_kept() -> None:
    events = [Error(error=ErrorInfo(message=message)) for message in ("first", "second")]

    assert fold(events).ext.error == ErrorInfo(message="first")


def test_step_is_one_entry() -> None:
    steps = [
        ActivityStep(family="f", step="s", phase="start", label="Begin"),
        ActivityStep(family="f", step="s", phase="progress", detail=1),
        ActivityStep(family="f", step="s", phase="done", detail=2),
        ActivityStep(family="f", step="n", phase="note", label="x"),
        ActivityStep(family="f", step="n", phase="note", label="y"),
    ]

    activity = fold(steps).ext.activity

    assert [(entry["phase"], entry.get("label"), entry.get("detail")) for entry in activity] == [
        ("done", "Begin", 2),
        ("note", "x", None),
        ("note", "y", None),
    ]


def test_artifacts_mockups_asks_and_forks_are_kept() -> None:
    events = [
        ArtifactUpdate(op="created", artifact_id="a", title="T", content="1"),
        ArtifactUpdate(op="updated", artifact_id="a", content="2"),
        MockupUpdate(op="created", bundle_id="b", entry="i.html"),
        AskQuestion(ask_id="q", question="Which?"),
        ContextFork(branch_id="x"),
    ]

    ext = fold(events).ext

    assert [entry["artifact_id"] for entry in ext.artifacts] == ["a"]
    assert ext.mockups[0]["entry"] == "i.html"
    assert ext.asks[0]["question"] == "Which?"
    assert ext.fork == {"branch_id": "x"}


def test_artifact_keeps_every_version() -> None:
    events = [
        ArtifactUpdate(op="created", artifact_id="a", title="T", content="1", seq=4),
        ArtifactUpdate(op="updated", artifact_id="a", content="2", seq=9),
    ]

    (artifact,) = fold(events).ext.artifacts

    assert artifact == {
        "op": "updated",
        "artifact_id": "a",
        "title": "T",
        "content": "2",
        "versions": [
            {"op": "created", "seq": 4, "title": "T", "content": "1"},
            {"op": "updated", "seq": 9, "title": "T", "content": "2"},
        ],
    }


def test_update_of_an_unknown_artifact_is_its_first_version() -> None:
    (artifact,) = fold([ArtifactUpdate(op="updated", artifact_id="a", content="2")]).ext.artifacts

    assert artifact["versions"] == [{"op": "updated", "content": "2"}]


INDEX: JsonObject = {"path": "index.html", "contentType": "text/html", "size": 3}
STYLE: JsonObject = {"path": "style.css", "contentType": "text/css", "size": 4}
MOCKUP_EVENTS: list[Event] = [
    MockupUpdate(op="calling", identifier="shop", title="Shop", seq=1),
    MockupUpdate(op="created", bundle_id="b", identifier="shop", files=[INDEX, STYLE], seq=2),
    MockupUpdate(
        op="updated", bundle_id="b", changed=["index.html", "a.js"], deleted=["style.css"], seq=3
    ),
]


def test_announced_mockup_is_one_entry() -> None:
    (mockup,) = fold(MOCKUP_EVENTS).ext.mockups

    assert (mockup["bundle_id"], mockup["identifier"], mockup["title"]) == ("b", "shop", "Shop")
    assert [(version["op"], version["seq"]) for version in mockup["versions"]] == [
        ("created", 2),
        ("updated", 3),
    ]


def test_mockup_updates_change_its_files() -> None:
    (mockup,) = fold(MOCKUP_EVENTS).ext.mockups

    assert mockup["files"] == [INDEX, {"path": "a.js"}]
    assert mockup["versions"][0]["files"] == [INDEX, STYLE]


def test_bundles_with_one_identifier_stay_apart() -> None:
    events = [
        MockupUpdate(op="created", bundle_id="b1", identifier="shop", files=[INDEX]),
        MockupUpdate(op="created", bundle_id="b2", identifier="shop", files=[STYLE]),
        MockupUpdate(op="updated", bundle_id="b1", changed=["x.js"]),
    ]

    first, second = fold(events).ext.mockups

    assert (first["bundle_id"], len(first["versions"])) == ("b1", 2)
    assert (second["bundle_id"], second["files"]) == ("b2", [STYLE])


def test_mockup_error_ends_with_the_next_update() -> None:
    failed = MockupUpdate(op="error", bundle_id="b", code="too_big", failed_path="x.js")

    (broken,) = fold([*MOCKUP_EVENTS, failed]).ext.mockups
    (mended,) = fold([*MOCKUP_EVENTS, failed, *MOCKUP_EVENTS[2:]]).ext.mockups

    assert (broken["op"], broken["code"], broken["failed_path"]) == ("error", "too_big", "x.js")
    assert (broken["files"], len(broken["versions"])) == ([INDEX, {"path": "a.js"}], 2)
    assert "code" not in mended
    assert "failed_path" not in mended


def test_artifacts_and_mockups_fold_from_any_point(subtests: pytest.Subtests) -> None:
    events = [
        ArtifactUpdate(op="created", artifact_id="a", content="1", seq=4),
        *MOCKUP_EVENTS,
        ArtifactUpdate(op="updated", artifact_id="a", content="2", seq=5),
    ]
    whole = folded(*events).result(COMPLETED)
    for cut in range(len(events) + 1):
        with subtests.test(cut=cut):
            state = folded(*events[:cut])
            before = state.result(COMPLETED)
            encoded = encode(before)

            state.extend(events[cut:])

            assert state.result(COMPLETED) == whole
            assert encode(before) == encoded


FILE_NAMES = [
    ("image/png", 0, 0, "picture-1.png"),
    ("image/jpeg", 2, 0, "picture-3.jpg"),
    ("audio/wav", 0, 1, "sound-1-1.wav"),
    ("../../etc", 0, 0, "file-1.bin"),
    ("", 0, 0, "file-1.bin"),
]


def test_inline_media_gets_a_file_name(subtests: pytest.Subtests) -> None:
    for media_type, item, choice, name in FILE_NAMES:
        with subtests.test(name=name):
            media = MediaUpdate(
                item=item, choice=choice, media_id="i", media_type=media_type, data="aGk="
            )

            result = fold([media])

            items = result.ext.alternatives[0].output if choice else result.output
            assert items == [MediaItem(media_type=media_type, file=name)]


def test_unknown_events_are_kept_and_counted() -> None:
    vendor = fold([VendorRaw(dialect="d", text=str(number)) for number in range(150)]).ext.vendor

    assert len(vendor) == 101
    assert vendor[0] == {"dialect": "d", "text": "0"}
    assert vendor[-1] == {"omitted": 50}


def test_plain_text_joins_messages_and_refusals() -> None:
    events = [
        *[ReasoningStart(item=0), ReasoningDelta(item=0, content="thought")],
        *text("One. ", item=1),
        *text("Two.", item=2),
        RefusalDelta(item=3, content="No."),
    ]

    assert plain_text(fold(events)) == "One.\n\nTwo.\n\nNo."


# --- going on, and ending ----------------------------------------------------------------


def test_result_is_available_at_any_time() -> None:
    state = folded(START, MessageStart(item=0), MessageDelta(item=0, content="a"))

    before = state.result(COMPLETED)
    state.extend([MessageDelta(item=0, content="b"), MetaUpdate(values={"a": 1})])

    assert before.output == [MessageItem(content="a")]
    assert before.ext.meta == {}
    assert state.result(COMPLETED).output == [MessageItem(content="ab")]


def test_log_without_an_end_is_cut() -> None:
    assert fold([START]).ext.status == "cut"


def test_ending_comes_from_chat_end() -> None:
    end = ChatEnd(result=folded(START).result(COMPLETED))

    assert fold([START, end]) == end.result


def test_fold_knows_the_last_seq() -> None:
    assert folded(START, MessageStart(item=0, seq=7)).last_seq == 7
    assert folded(START, MessageStart(item=0)).last_seq == 2


def openai_frames(*contents: str) -> list[Frame]:
    return [Frame(None, f'{{"choices":[{{"delta":{{"content":"{c}"}}}}]}}') for c in contents]


def parsed(*frames: Frame) -> tuple[Parser, Fold]:
    parser = dialects.get("openai_chat").parser(model="m", options={})
    return parser, folded(*[event for frame in frames for event in parser.feed(frame)])


def end_of(closing: list[Event]) -> Result:
    end = closing[-1]
    assert isinstance(end, ChatEnd)
    return end.result


def test_finish_ends_by_its_cause(subtests: pytest.Subtests) -> None:
    for cause, status in [
        ("eof", "cut"),
        ("stopped", "stopped"),
        ("interrupted", "interrupted"),
        ("failed", "failed"),
    ]:
        with subtests.test(cause):
            parser, state = parsed(*openai_frames("a"))
            error = ErrorInfo(kind="timeout", message="late") if cause == "failed" else None

            closing = finish(parser, state, cause, error=error, t=1234)

            result = end_of(closing)
            assert result.ext.status == status
            assert result.output == [MessageItem(content="a")]
            assert {event.t for event in closing} == {1234}
            assert finish(parser, state, cause) == []
            assert (result.ext.error is not None) == (status in ("cut", "failed"))


def test_stop_after_the_terminator_changes_nothing() -> None:
    parser, state = parsed(*openai_frames("a"), Frame(None, "[DONE]"))

    assert end_of(finish(parser, state, "stopped")).ext.status == "completed"


def test_idle_timeout_after_a_finish_reason_completes(subtests: pytest.Subtests) -> None:
    for finish_reason, status in [("stop", "completed"), (None, "failed")]:
        with subtests.test(finish_reason=finish_reason):
            last = {"choices": [{"delta": {}, "finish_reason": finish_reason}]}
            parser, state = parsed(*openai_frames("a"), Frame(None, json.dumps(last)))
            silence = ErrorInfo(kind="idle_timeout", message="Nothing more came.")

            result = end_of(finish(parser, state, "failed", error=silence))

            assert result.ext.status == status
            assert (result.ext.error is None) == (status == "completed")


LOST_RUN: list[Event] = [
    START,
    ReasoningStart(item=0),
    ReasoningDelta(item=0, content="thought"),
    MessageStart(item=1),
    MessageDelta(item=1, content="text"),
    ToolCallStart(item=2, tool="t", executes="upstream"),
    ToolCallDelta(item=2, fragment='{"a":'),
    ToolCallArguments(item=2, tool="t", arguments={"a": 1}),
    ToolCallStart(item=3, tool="t"),
]


def test_lost_run_is_closed_from_its_log(subtests: pytest.Subtests) -> None:
    for count in range(1, len(LOST_RUN) + 1):
        with subtests.test(events=count):
            events = LOST_RUN[:count]
            state = folded(*events)

            closing = close_open(state, t=5)

            result = end_of(closing)
            assert result.ext.status == "interrupted"
            assert result.ext.stop.reason == "interrupted"
            assert state.open_parts() == []
            assert fold([*events, *closing]) == result
            assert close_open(state) == []
            assert not any(getattr(item, "status", "") == "pending" for item in result.output)


def test_complete_client_call_is_not_open() -> None:
    state = folded(START, CALL, ARGUMENTS)

    (end,) = close_open(state)

    assert isinstance(end, ChatEnd)
    assert isinstance(end.result.output[0], ToolCallItem)


def test_run_that_never_started_has_a_start_and_an_end() -> None:
    start, end = close_open(Fold(), "stopped", model="m", dialect="lmstudio", endpoint="E")

    assert start == ChatStart(
        model_instance_id="m", dialect="lmstudio", endpoint="E", requested_model="m"
    )
    assert isinstance(end, ChatEnd)
    assert end.result.ext.status == "stopped"
    assert end.result.model_instance_id == "m"
