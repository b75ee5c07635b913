"""Tool calls: their cards, groups of calls, folded contents, and results as trees."""

import json
from uuid import UUID

import pytest

from chat import events
from chat.events import Event
from chat.rendering.components import SHOWN_CHARACTERS
from chat.rendering.patches import Answer
from tests.rendering.dom import Element, parse
from tests.rendering.replay_stories import programs
from tests.rendering.shown import page_of, text_of, unfolded
from tests.rendering.stories import RUN, answer_of, cut, end, message, numbered


def succeeded(output: str, item: int = 0, tool: str = "t") -> events.ToolCallSuccess:
    return events.ToolCallSuccess(item=item, tool=tool, arguments={}, output=output)


def failed(reason: str, item: int = 0, tool: str = "t") -> events.ToolCallFailure:
    metadata = events.FailureMetadata(type="execution_failed", tool_name=tool)
    return events.ToolCallFailure(item=item, reason=reason, metadata=metadata)


# --- cards ------------------------------------------------------------------------------------


def test_arguments_are_appended_as_they_come() -> None:
    answer = Answer(RUN)
    for event in numbered(
        [
            events.ToolCallStart(item=0, tool="t"),
            events.ToolCallDelta(item=0, fragment='{"a'),
            events.ToolCallDelta(item=0, fragment='": 1}'),
        ]
    ):
        answer.apply(event)

    patch = answer.patches_since(2)
    assert f'hx-target="#r{RUN}-i0-args-text" hx-swap="beforeend">": 1}}</' in patch


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (events.ToolCallStart(item=0, tool="t"), "Preparing"),
        (events.ToolCallArguments(item=0, tool="t", arguments={}), "Called"),
        (succeeded("o"), "Done"),
        (
            events.ToolCallFailure(
                item=0,
                reason="no such tool",
                metadata=events.FailureMetadata(type="invalid_name", tool_name="t"),
            ),
            "Failed",
        ),
    ],
    ids=["started", "called", "succeeded", "failed"],
)
def test_card_names_its_state(event: Event, word: str) -> None:
    assert word in text_of(event)


WRAPPED = {"name": "river_level", "arguments": {"station": "Basel"}}


@pytest.mark.parametrize(
    "event",
    [
        events.ToolCallArguments(item=0, tool="call_tool", arguments=WRAPPED),
        events.ToolCallSuccess(item=0, tool="call_tool", arguments=WRAPPED, output="o"),
        events.ToolCallFailure(
            item=0,
            reason="no",
            metadata=events.FailureMetadata(
                type="execution_failed", tool_name="call_tool", arguments=WRAPPED
            ),
        ),
    ],
)
def test_card_names_the_tool_that_is_called_by_another(event: Event) -> None:
    start = events.ChatStart(model_instance_id="m", defers_tools=True)

    text, plain = text_of(start, event), text_of(event)

    assert "river_level" in text
    assert "station" in text
    assert "call_tool" not in text
    # A function of another program may have that name, too.
    assert "call_tool" in plain


def test_failed_call_gives_the_reason() -> None:
    text = text_of(failed("disk on fire"))

    assert "The tool failed. disk on fire" in text.replace(".d", ". d")


@pytest.mark.parametrize(
    ("status", "words"), [("waiting", "Waiting for a result"), ("stopped", "No result")]
)
def test_call_without_a_result_says_so_at_the_end(status: str, words: str) -> None:
    called = events.ToolCallArguments(item=0, tool="t", arguments={})

    assert words in text_of(called, end(status))


def test_call_of_a_paused_run_is_continued_below() -> None:
    call = events.ToolCallStart(item=0, tool="web_search", executes="upstream")
    paused = end("incomplete")
    paused.result.ext.stop = events.Stop(reason="pause")

    assert "Continued below" in text_of(call, paused)


def test_result_without_a_call_was_given_by_a_person() -> None:
    given = succeeded("o")

    assert "tool given" in answer_of(given).snapshot()
    assert "tool given" not in answer_of(events.ToolCallStart(item=0, tool="t"), given).snapshot()


def test_too_deeply_nested_arguments_are_not_shown() -> None:
    nested: dict[str, object] = {}
    for _ in range(5000):
        nested = {"a": nested}

    called = events.ToolCallArguments(item=0, tool="t", arguments=nested)

    assert "nested too deeply" in text_of(called)


# --- groups -----------------------------------------------------------------------------------


def called(item: int, *, fails: bool = False) -> list[Event]:
    tool = f"t{item}"
    done = failed("dry", item, tool) if fails else succeeded("o", item, tool)
    return [events.ToolCallStart(item=item, tool=tool), done]


def groups_of(*story: Event) -> list[tuple[str, bool]]:
    """The summary of each group of calls, and whether its cards are visible."""
    groups = page_of(*story).find_all(class_="in-a-row")
    return [(group.children[0].words(), "open" in group.attributes) for group in groups]  # type: ignore[union-attr]


def test_group_of_calls_is_folded_when_something_follows() -> None:
    story = [*called(0), *called(1, fails=True), *called(2)]

    assert groups_of(*story) == [("3 tool calls t0, t1, t2 1 failed 0.7 s", True)]
    assert [is_open for _, is_open in groups_of(*story, *message("So.", item=3))] == [False]


def test_single_call_is_not_folded() -> None:
    assert groups_of(*called(0), *message("So.", item=1), end()) == [("", True)]


def test_calls_of_a_program_are_below_it() -> None:
    page = page_of(*programs())

    below = [
        [card.attributes["id"].rpartition("-")[2] for card in program.find_all("details")]
        for program in page.find_all(class_="program")
    ]
    assert below == [["i0", "i2", "i4"], ["i1", "i3"]]
    (group,) = page.find_all(class_="in-a-row")
    assert group.children[0].words().startswith("7 tool calls")  # type: ignore[union-attr]


def test_program_goes_on_after_the_calls_that_it_waits_for() -> None:
    words = [head.words() for head in page_of(*programs()).find_all("summary")[1:]]

    assert ["Continued below" in line for line in words] == [True, False, False, True, *[False] * 3]
    assert [line.count("Waiting for a result") for line in words] == [0, 0, 1, 0, 1, 1, 1]


def test_text_between_calls_divides_the_group() -> None:
    groups = groups_of(*called(0), *called(1), *message("So.", item=2), *called(3), *called(4))

    assert [line[:12] for line, _ in groups] == ["2 tool calls"] * 2


def test_calls_that_wait_for_people_stay_visible() -> None:
    waiting = [events.ToolCallArguments(item=i, tool=f"t{i}", arguments={}) for i in (0, 1)]

    ((line, is_open),) = groups_of(*waiting, end("waiting"))
    assert "2 waiting" in line
    assert is_open


# --- folded contents ---------------------------------------------------------------------------

LONG = "A thought that goes on. " * 400


def thought(text: str) -> list[Event]:
    return [
        events.ReasoningStart(item=0),
        *(events.ReasoningDelta(item=0, content=part) for part in cut(text, 500)),
        events.ReasoningEnd(item=0),
    ]


def test_long_thought_is_folded_when_it_is_complete() -> None:
    *growing, ended = thought(LONG)
    text = text_of(*growing, ended)

    assert "goes on" in text_of(*growing)
    assert "goes on" not in text
    assert "Show the text (9,600 characters)" in text
    assert "goes on" in str(answer_of(*growing, ended).part(f"r{RUN}-i0-flow"))


def test_short_thought_stays_in_the_page() -> None:
    assert "Hm." in text_of(*thought("Hm."))


def test_long_result_is_fetched_when_it_is_opened() -> None:
    answer = answer_of(succeeded("line of a log\n" * 400))

    (button,) = parse(answer.snapshot()).find_all(class_="later")
    assert button.attributes["data-part"] == f"/r/{UUID(RUN)}/part/r{RUN}-i0-outcome/"
    assert "line of a log" not in answer.snapshot()
    assert "line of a log" in str(answer.part(f"r{RUN}-i0-outcome"))


@pytest.mark.parametrize("id", ["", f"r{RUN}", f"r{RUN}-i0", f"r{RUN}-items", "r0-i0-flow"])
def test_only_folds_are_parts(id: str) -> None:
    assert answer_of(*thought(LONG)).part(id) is None


def test_unfolded_answer_contains_everything() -> None:
    text = unfolded(*thought(LONG)).words()

    assert "goes on" in text
    assert "Show the text" not in text


def test_long_result_is_cut_and_says_so() -> None:
    text = unfolded(succeeded("y" * (SHOWN_CHARACTERS + 5))).words()

    assert "the first 32,000 of 32,005 characters" in text


def test_failure_after_a_long_result_is_not_folded() -> None:
    assert "disk on fire" in text_of(succeeded("3 m " * 2000), failed("disk on fire"))


# --- results ----------------------------------------------------------------------------------


def result(output: object) -> Element:
    return unfolded(succeeded(output if isinstance(output, str) else json.dumps(output)))


@pytest.mark.parametrize("output", ['{"a": [1', "[" * 30_000, "not json", ""])
def test_invalid_json_is_shown_as_text(output: str) -> None:
    assert output in result(output).text()


def test_json_is_a_tree_with_branches() -> None:
    page = result({"river": {"name": "Elder", "page": "https://example.org/e"}, "levels": [1]})

    branches = page.find_all(class_="branch")
    assert [branch.children[0].words() for branch in branches] == [  # type: ignore[union-attr]
        "river 2 fields name: Elder, page: https://example.org/e",
        "levels 1 item 1",
    ]
    assert [link.attributes["href"] for link in page.find_all("a")] == ["https://example.org/e"]


def test_mcp_result_is_shown_as_text_and_pictures() -> None:
    page = result(
        [
            {"type": "text", "text": "Here."},
            {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
        ]
    )

    assert "Here." in page.text()
    assert [image.attributes["src"] for image in page.find_all("img")] == [
        "data:image/png;base64,iVBORw0KGgo="
    ]


@pytest.mark.parametrize("data", ['"><script>', "PHN2Zz4="])
def test_svg_picture_is_shown_as_text(data: str) -> None:
    part = {"type": "image", "mimeType": "image/svg+xml", "data": data}

    assert result([part]).find_all("img") == []


def test_many_parts_are_cut() -> None:
    parts = [{"type": "image", "data": "x"}, *({"type": "text", "text": "{}"} for _ in range(5000))]

    assert "4,951 more" in result(parts).text()


def test_long_name_is_cut() -> None:
    tree = result({"a": {"b" * 9000: 1}}).find_all(class_="tree")[0]

    assert len(tree.text()) < 300


def test_large_tree_is_cut() -> None:
    page = result({"rows": [[i] * 50 for i in range(100)]})

    assert len(page.elements()) < 8000
    assert "more" in page.text()
