import base64
import json
import re
from pathlib import Path
from typing import Literal
from uuid import UUID

import pytest
from django.urls import reverse

from chat import events
from chat.events import EVENT_TYPES, Event, OutputItem
from chat.rendering import figures
from chat.rendering.anatomy import SHOWN_CHARACTERS
from chat.rendering.items import ITEM_KINDS
from chat.rendering.patches import HANDLERS, INVISIBLE, Answer
from chat.rendering.wording import EVENTS
from tests.rendering.dom import Element, parse
from tests.rendering.stories import RICH, RUN, cut, end, message, numbered, told

TEMPLATES = Path(__file__).parents[2] / "templates" / "chat" / "items"
CSS = Path(__file__).parents[2] / "static" / "css"
# What is kept beside the text, and the figures below it, have sheets of their own.
STYLES = [
    CSS / name for name in ("answer.css", "cards.css", "files.css", "recorder.css", "text.css")
]


def shown(*story: Event) -> Answer:
    answer = Answer(RUN)
    for event in numbered(story):
        answer.apply(event)
    return answer


def text_of(answer: Answer) -> str:
    return " ".join(parse(answer.snapshot()).text().split())


def phase_of(*story: Event) -> str:
    return " ".join(parse(shown(*story).phase()).text().split())


# --- completeness ------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_event_type_has_a_renderer_or_a_reason(name: str) -> None:
    kind = EVENT_TYPES[name]

    assert kind in HANDLERS or INVISIBLE[kind]


@pytest.mark.parametrize("kind", OutputItem.__args__)
def test_every_item_kind_has_a_renderer(kind: type) -> None:
    assert str(kind.__struct_config__.tag) in ITEM_KINDS


def test_the_rich_run_has_every_event_type() -> None:
    assert {type(event) for event in RICH} == set(EVENT_TYPES.values())


class Novelty(events.EventBase, tag="novelty", kw_only=True):
    words: str = ""


def test_an_event_without_a_renderer_gets_the_generic_card() -> None:
    answer = shown(Novelty(words="never <seen>"))  # type: ignore[arg-type]

    assert "novelty" in text_of(answer)
    assert "never <seen>" in text_of(answer)


def test_what_no_table_knows_is_counted_and_not_shown() -> None:
    answer = shown(events.VendorRaw(dialect="x", text="odd"), events.VendorRaw(dialect="x"))

    assert answer.unknown_events == 2
    assert "odd" not in answer.snapshot()


def test_every_template_is_used() -> None:
    source = "".join(
        path.read_text() for path in (Path(__file__).parents[2] / "chat/rendering").glob("*.py")
    )

    assert [path.stem for path in TEMPLATES.glob("*.html") if f'"{path.stem}"' not in source] == []


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.stem)
def test_templates_have_no_inline_code_and_no_reason_to_leave_a_patch(path: Path) -> None:
    source = path.read_text()

    assert not re.search(r"<script|<style|\son\w+=|\sstyle=|<head|</?hx-|\|\s*safe", source)


def test_the_style_sheet_knows_every_class() -> None:
    answer = Answer(RUN)
    classes: set[str] = set()
    for event in RICH:
        answer.apply(event)
        for html in (answer.snapshot(), answer.phase()):
            for element in parse(html).elements():
                classes |= set(element.attributes.get("class", "").split())

    style = "".join(sheet.read_text() for sheet in STYLES)
    plain = {"word", "icon", "label", "item", "message", "artifact", "mockup", "media", "pair"}
    plain |= {
        "card-way",
        "fold",
        "facts",
        "detail",
        "elapsed",
        "items",
        "copy",
        "copy-word",
        "download",
    }
    # Shared by every page.
    plain |= {"quiet", "visually-hidden"}
    assert {one for one in classes - plain if f".{one}" not in style} == set()


# --- states ------------------------------------------------------------------------------


def test_state_follows_the_run() -> None:
    answer = Answer(RUN)

    states = [answer.state]
    for event in told("x"):
        answer.apply(event)
        states.append(answer.state)

    assert states[0] == "waiting"
    assert set(states[1:-1]) == {"live"}
    assert states[-1] == "completed"


def test_an_unnumbered_event_takes_the_next_place() -> None:
    answer = Answer(RUN)
    for event in message("text"):
        answer.apply(event)

    assert answer.seq == 3
    assert "text" in answer.snapshot()


def test_ids_begin_with_the_run() -> None:
    answer = shown(*RICH)

    ids = [e.attributes["id"] for e in parse(answer.snapshot()).elements() if "id" in e.attributes]
    assert ids
    assert all(id.startswith(f"r{RUN}-") for id in ids)


# --- the phase strip ------------------------------------------------------------------------

START = events.ChatStart(model_instance_id="m")
LOAD = events.ModelLoadProgress(model_instance_id="big", progress=0.654)


def test_waiting_has_a_word_before_the_first_event() -> None:
    assert "Waiting for the first byte" in Answer(RUN).phase()
    assert "Waiting for the first byte" in Answer(RUN).snapshot()


def test_progress_has_true_figures() -> None:
    assert "Loading the model big 65 %" in phase_of(START, LOAD)
    assert 'value="65"' in shown(START, LOAD).phase()


def test_progress_is_in_the_answer_only_while_nothing_else_is() -> None:
    assert "Loading the model" in text_of(shown(START, LOAD))
    assert "Loading the model" not in text_of(shown(START, LOAD, *message("hello")))


def test_a_phase_without_a_figure_has_no_bar() -> None:
    assert "<progress" not in shown(START, events.PromptProcessingStart()).phase()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (events.PromptProcessingProgress(progress=0.5), "Reading the prompt 50 %"),
        (events.PromptProcessingProgress(progress=float("nan")), "Reading the prompt 0 %"),
        (events.PromptProcessingProgress(progress=7.0), "Reading the prompt 100 %"),
        (events.ReasoningStart(item=0), "Thinking"),
        (events.ToolCallStart(item=0, tool="grep"), "Preparing a tool call grep"),
        (events.ToolCallArguments(item=0, tool="grep", arguments={}), "Calling a tool grep"),
        (events.MessageStart(item=0), "Writing"),
        (events.AskQuestion(ask_id="a", question="?"), "Waiting for a person"),
        (events.ActivityStep(family="f", step="s", phase="start", label="Dig"), "Working Dig"),
        (events.MockupUpdate(op="calling", identifier="m"), "Building a mockup"),
        (
            events.ToolCallArguments(item=0, tool="web_search", arguments={"query": "herons"}),
            "Searching herons",
        ),
        (
            events.ActivityStep(
                family="research", step="searching", phase="start", label="Searching: tides"
            ),
            "Searching tides",
        ),
    ],
)
def test_the_strip_names_the_phase(event: Event, words: str) -> None:
    assert phase_of(START, event).startswith(words)


def test_the_strip_names_what_began_last_not_what_has_ended() -> None:
    first, second = (
        events.ActivityStep(family="f", step=f"s{n}", phase="start", label=f"Part {n}", ref=str(n))
        for n in (1, 2)
    )
    done = events.ActivityStep(family="f", step="s1", phase="done", label="Part 1", ref="1")

    assert phase_of(START, first, second, done).startswith("Working Part 2")


def test_the_strip_is_empty_at_the_end() -> None:
    assert phase_of(START, end()) == ""


def test_running_time_changes_once_a_second() -> None:
    story = [events.ReasoningStart(item=0)]
    story += [events.ReasoningDelta(item=0, content="x") for _ in range(30)]
    answer = Answer(RUN)
    heads = 0
    for event in numbered(story, step_ms=100):
        seen = answer.seq
        answer.apply(event)
        heads += "-head" in answer.patches_since(seen) and seen > 0

    assert heads == 3


# --- reasoning ------------------------------------------------------------------------------


def test_reasoning_is_folded_and_says_how_long_it_thought() -> None:
    answer = shown(
        events.ReasoningStart(item=0),
        events.ReasoningDelta(item=0, content="Let me see."),
        events.ReasoningEnd(item=0),
    )

    fold = next(e for e in parse(answer.snapshot()).elements() if e.tag == "details")
    assert "open" not in fold.attributes
    assert "Thought for 0.3 s 3 words" in text_of(answer)


def test_live_reasoning_has_a_running_time() -> None:
    answer = shown(events.ReasoningStart(item=0), events.ReasoningDelta(item=0, content="Hm"))

    assert "Thinking" in text_of(answer)
    assert "data-elapsed-ms" in answer.snapshot()


@pytest.mark.parametrize(
    ("kind", "words"), [("summary", "summary"), ("hidden", "keeps this thinking to itself")]
)
def test_reasoning_that_is_not_whole_says_so(kind: str, words: str) -> None:
    answer = shown(events.ReasoningStart(item=0, kind=kind))  # type: ignore[arg-type]

    assert words in text_of(answer)


# --- tools ------------------------------------------------------------------------------------


def test_arguments_grow_as_they_come() -> None:
    answer = Answer(RUN)
    first, second, third = numbered(
        [
            events.ToolCallStart(item=0, tool="t"),
            events.ToolCallDelta(item=0, fragment='{"a'),
            events.ToolCallDelta(item=0, fragment='": 1}'),
        ]
    )
    for event in (first, second):
        answer.apply(event)
    answer.apply(third)

    patch = answer.patches_since(2)
    assert f'hx-target="#r{RUN}-i0-args-text" hx-swap="beforeend">": 1}}</' in patch


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (events.ToolCallStart(item=0, tool="t"), "Preparing"),
        (events.ToolCallArguments(item=0, tool="t", arguments={}), "Called"),
        (events.ToolCallSuccess(item=0, tool="t", arguments={}, output="o"), "Done"),
        (
            events.ToolCallFailure(
                item=0,
                reason="no such tool",
                metadata=events.FailureMetadata(type="invalid_name", tool_name="t"),
            ),
            "Failed",
        ),
    ],
)
def test_a_tool_card_names_its_state(event: Event, word: str) -> None:
    assert word in text_of(shown(event))


def test_a_failed_call_gives_the_reason() -> None:
    metadata = events.FailureMetadata(type="execution_failed", tool_name="t")
    answer = shown(events.ToolCallFailure(item=0, reason="disk on fire", metadata=metadata))

    assert "The tool failed. disk on fire" in text_of(answer).replace(".d", ". d")


@pytest.mark.parametrize(
    ("status", "word"), [("waiting", "Waiting for a result"), ("stopped", "No result")]
)
def test_a_call_without_an_answer_says_so_at_the_end(status: str, word: str) -> None:
    answer = shown(events.ToolCallArguments(item=0, tool="t", arguments={}), end(status))

    assert word in text_of(answer)


def test_a_long_result_is_cut_and_says_by_how_much() -> None:
    output = "y" * (SHOWN_CHARACTERS + 5)
    answer = shown(events.ToolCallSuccess(item=0, tool="t", arguments={}, output=output))
    answer.unfold()

    assert "The first 32,000 of 32,005 characters" in text_of(answer)


@pytest.mark.parametrize("output", ['{"a": [1', "[" * 30_000, "not json", ""])
def test_a_result_that_is_no_json_is_shown_as_it_is(output: str) -> None:
    answer = shown(events.ToolCallSuccess(item=0, tool="t", arguments={}, output=output))
    answer.unfold()

    assert output in parse(answer.snapshot()).text()


def test_arguments_nested_beyond_reason_do_not_break_the_answer() -> None:
    nested: dict[str, object] = {}
    for _ in range(5000):
        nested = {"a": nested}

    answer = shown(events.ToolCallArguments(item=0, tool="t", arguments=nested))

    assert "nested too deeply" in text_of(answer)


# --- sources ------------------------------------------------------------------------------------


def cited(text: str, *places: int | None, ended: bool = True) -> Answer:
    sources = [
        events.Citation(kind="url", title=f"Page {number}", url=f"https://x.org/{number}", end=end)
        for number, end in enumerate(places, start=1)
    ]
    said = message(text)
    added = [events.CitationAdd(item=0, citation=one) for one in sources]
    return shown(*said[:-1], *added, *([said[-1]] if ended else []))


def links_of(answer: Answer) -> dict[str, str]:
    """Where each link inside the answer leads, by its id or the words on it."""
    links = [e for e in parse(answer.snapshot()).elements() if e.tag == "a"]
    own = [e for e in links if e.attributes["href"].startswith("#")]
    return {e.attributes.get("id", e.text()): e.attributes["href"][1:] for e in own}


def test_a_mark_in_the_text_and_its_source_lead_to_each_other() -> None:
    answer = cited("The weir is **old**. It leaks.", 20, 30)

    assert "The weir is old.1 It leaks.2" in text_of(answer)
    links = links_of(answer)
    assert links[f"r{RUN}-i0-m1"] == f"r{RUN}-i0-src1"
    assert links["↑"] == f"r{RUN}-i0-m2"
    assert parse(answer.snapshot()).find(f"r{RUN}-i0-src2")


def test_marks_wait_until_the_text_is_complete() -> None:
    assert links_of(cited("The weir.\n\nIt leaks.", 9, ended=False)).get(f"r{RUN}-i0-m1") is None
    assert links_of(cited("The weir.\n\nIt leaks.", 9))[f"r{RUN}-i0-m1"]


@pytest.mark.parametrize("place", [None, 0, 10_000])
def test_without_a_place_in_the_text_there_is_the_list_alone(place: int | None) -> None:
    answer = cited("The weir is old.", place)

    assert links_of(answer) == {}
    assert "Page 1" in text_of(answer)


@pytest.mark.parametrize("place", [4, 12, 24])
def test_a_mark_never_changes_what_the_text_means(place: int) -> None:
    text = "See [the weir](https://example.org/weir) here."
    answer = cited(text, place)

    page = parse(answer.snapshot())
    link = next(e for e in page.elements() if e.attributes.get("rel", "").startswith("noopener"))
    assert link.attributes["href"] == "https://example.org/weir"
    assert not [e for e in link.elements()[1:] if e.tag == "a"]
    assert f"r{RUN}-i0-m1" in answer.snapshot()


def test_a_mark_is_not_copied_with_code() -> None:
    answer = cited("```\nweir = 1\n```", 8)

    code = next(e for e in parse(answer.snapshot()).elements() if e.tag == "code")
    assert code.text() == "weir = 1\n"


def test_symbols_in_a_text_are_no_marks() -> None:
    answer = cited("In braille \u2801\u2802 it says.", 11)

    assert "In braille \u2801\u2802 it says." in text_of(answer)
    assert f"r{RUN}-i0-m1" in answer.snapshot()


def test_what_is_cited_twice_is_one_source() -> None:
    source = events.Citation(kind="url", title="Weir", url="https://x.org/w", cited_text="oak")
    answer = shown(*message("x"), *(events.CitationAdd(item=0, citation=source) for _ in range(3)))

    assert "Sources 1" in text_of(answer)
    assert text_of(answer).count("oak") == 1


# --- several answers and their probabilities ------------------------------------------------------


def test_several_answers_have_a_button_each_and_one_has_none() -> None:
    two = parse(shown(*message("One."), *message("Two.", choice=1)).snapshot())
    one = parse(shown(*message("One.")).snapshot())

    buttons = [e for e in two.elements() if e.attributes.get("type") == "radio"]
    assert [(e.attributes["value"], "checked" in e.attributes) for e in buttons] == [
        ("0", True),
        ("1", False),
    ]
    assert not [e for e in one.elements() if e.tag == "input"]


ENTRY = {"token": "weir", "logprob": -0.5, "top_logprobs": [{"token": "dam", "logprob": -1.5}]}
LEGACY = {"tokens": ["weir"], "token_logprobs": [-0.5], "top_logprobs": [{"dam": -1.5}]}


def test_probabilities_need_no_rivals() -> None:
    said = message("weir")
    alone = {**LEGACY, "top_logprobs": []}
    answer = shown(*said[:-1], events.LogprobsAdd(item=0, tokens=[alone]), said[-1])

    assert "“weir” 61 %" in str(answer.part(f"r{RUN}-i0-odds"))


@pytest.mark.parametrize("entry", [ENTRY, LEGACY])
def test_probabilities_are_a_view_of_their_own(entry: dict[str, object]) -> None:
    said = message("weir")
    answer = shown(*said[:-1], events.LogprobsAdd(item=0, tokens=[entry]), said[-1])

    token = next(
        e for e in parse(str(answer.part(f"r{RUN}-i0-odds"))).elements() if "title" in e.attributes
    )
    assert token.attributes["class"] == "odd odd-3"
    assert token.attributes["title"] == "“weir” 61 %; else “dam” 22 %"
    assert "dam" not in answer.snapshot()


@pytest.mark.parametrize("logprob", [10**400, -(10**400), float("-inf")])
def test_a_probability_beyond_all_floats_does_not_break_the_answer(logprob: float) -> None:
    said = message("By the weir.")
    entry = {"token": "weir", "logprob": logprob, "top_logprobs": {"dam": logprob}}
    answer = shown(*said[:-1], events.LogprobsAdd(item=0, tokens=[entry]), said[-1])

    assert "“weir”" in str(answer.part(f"r{RUN}-i0-odds"))


@pytest.mark.parametrize(
    "entry", [{}, None, 7, {"token": 1, "logprob": -1}, {"token": "x", "logprob": "y"}]
)
def test_probabilities_that_are_none_are_left_out(entry: object) -> None:
    said = message("weir")
    answer = shown(*said[:-1], events.LogprobsAdd(item=0, tokens=[entry]), said[-1])

    assert "How likely" not in text_of(answer)


# --- calls in a row ---------------------------------------------------------------------------


def called(item: int, *, fails: bool = False) -> list[Event]:
    metadata = events.FailureMetadata(type="execution_failed", tool_name=f"t{item}")
    return [
        events.ToolCallStart(item=item, tool=f"t{item}"),
        events.ToolCallFailure(item=item, reason="dry", metadata=metadata)
        if fails
        else events.ToolCallSuccess(item=item, tool=f"t{item}", arguments={}, output="o"),
    ]


def rows_of(answer: Answer) -> list[tuple[str, bool]]:
    """The line of each group of calls, and whether its cards are in sight."""
    groups = [
        e for e in parse(answer.snapshot()).elements() if e.attributes.get("class") == "in-a-row"
    ]
    return [
        (" ".join(group.children[0].text().split()), "open" in group.attributes)  # type: ignore[union-attr]
        for group in groups
    ]


def test_calls_in_a_row_fold_to_one_line_when_something_follows() -> None:
    story = [*called(0), *called(1, fails=True), *called(2)]

    assert rows_of(shown(*story)) == [("3 tool calls t0, t1, t2 1 failed 0.7 s", True)]
    assert [is_open for _, is_open in rows_of(shown(*story, *message("So.", item=3)))] == [False]


def test_a_single_call_is_its_own_line() -> None:
    assert rows_of(shown(*called(0), *message("So.", item=1), end())) == [("", True)]


def test_calls_with_something_between_are_two_rows() -> None:
    answer = shown(*called(0), *called(1), *message("So.", item=2), *called(3), *called(4))

    assert [line[:12] for line, _ in rows_of(answer)] == ["2 tool calls"] * 2


def test_calls_that_wait_for_people_stay_in_sight() -> None:
    waiting = [events.ToolCallArguments(item=i, tool=f"t{i}", arguments={}) for i in (0, 1)]

    ((line, is_open),) = rows_of(shown(*waiting, end("waiting")))
    assert "2 waiting" in line
    assert is_open


# --- what comes when it is opened -----------------------------------------------------------------

LONG = "A thought that goes on. " * 400


def thought(text: str) -> list[Event]:
    return [
        events.ReasoningStart(item=0),
        *(events.ReasoningDelta(item=0, content=part) for part in cut(text, 500)),
        events.ReasoningEnd(item=0),
    ]


def test_a_long_thought_leaves_the_page_when_it_is_complete() -> None:
    growing, complete = shown(*thought(LONG)[:-1]), shown(*thought(LONG))

    assert "goes on" in text_of(growing)
    assert "goes on" not in text_of(complete)
    assert "Show the text, 9,600 characters" in text_of(complete)
    assert "goes on" in str(complete.part(f"r{RUN}-i0-flow"))


def test_a_short_thought_stays_in_the_page() -> None:
    assert "Hm." in text_of(shown(*thought("Hm.")))


def test_a_long_result_comes_when_it_is_opened() -> None:
    output = "line of a log\n" * 400
    answer = shown(events.ToolCallSuccess(item=0, tool="t", arguments={}, output=output))

    button = next(
        e for e in parse(answer.snapshot()).elements() if "later" in e.attributes.values()
    )
    address = button.attributes["data-part"]
    assert address == f"/r/{UUID(RUN)}/part/r{RUN}-i0-outcome/"
    assert "line of a log" not in answer.snapshot()
    assert "line of a log" in str(answer.part(f"r{RUN}-i0-outcome"))


@pytest.mark.parametrize("id", ["", f"r{RUN}", f"r{RUN}-i0", f"r{RUN}-items", "r0-i0-flow"])
def test_what_is_no_fold_is_not_given_as_one(id: str) -> None:
    assert shown(*thought(LONG)).part(id) is None


def test_unfolded_everything_is_in_the_page() -> None:
    answer = shown(*thought(LONG))
    answer.unfold()

    assert "goes on" in text_of(answer)
    assert "Show the text" not in text_of(answer)


# --- results ------------------------------------------------------------------------------------


def result(output: str) -> Element:
    answer = shown(events.ToolCallSuccess(item=0, tool="t", arguments={}, output=output))
    answer.unfold()
    return parse(answer.snapshot())


def test_json_is_a_tree_that_opens() -> None:
    page = result('{"river": {"name": "Elder", "page": "https://example.org/e"}, "levels": [1]}')

    branches = [e for e in page.elements() if e.attributes.get("class") == "branch"]
    assert [" ".join(b.children[0].text().split()) for b in branches] == [  # type: ignore[union-attr]
        "river 2 members name: Elder, page: https://example.org/e",
        "levels 1 entry 1",
    ]
    assert [e.attributes["href"] for e in page.elements() if e.tag == "a"] == [
        "https://example.org/e"
    ]


def test_the_parts_of_an_mcp_result_are_text_and_pictures() -> None:
    page = result(
        '[{"type": "text", "text": "Here."},'
        ' {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}]'
    )

    assert "Here." in page.text()
    assert [e.attributes["src"] for e in page.elements() if e.tag == "img"] == [
        "data:image/png;base64,iVBORw0KGgo="
    ]


@pytest.mark.parametrize("data", ['"><script>', "PHN2Zz4="])
def test_what_only_says_that_it_is_a_picture_is_shown_as_text(data: str) -> None:
    part = {"type": "image", "mimeType": "image/svg+xml", "data": data}

    assert not [e for e in result(json.dumps([part])).elements() if e.tag == "img"]


def test_a_flood_of_parts_has_an_end() -> None:
    parts = [{"type": "image", "data": "x"}, *({"type": "text", "text": "{}"} for _ in range(5000))]

    page = result(json.dumps(parts))

    assert "and 4,951 more parts" in page.text()


def test_a_picture_stays_what_it_was_whatever_is_said_of_it_later() -> None:
    data = "iVBORw0KGgo="
    answer = shown(
        events.MediaUpdate(item=0, media_id="m", media_type="image/png", data=data),
        events.MediaUpdate(item=0, media_id="m", media_type="text/html", state="final"),
    )

    (image,) = [e for e in parse(answer.snapshot()).elements() if e.tag == "img"]
    assert image.attributes["src"] == f"data:image/png;base64,{data}"


def test_a_failure_behind_a_long_result_is_told_at_once() -> None:
    metadata = events.FailureMetadata(type="execution_failed", tool_name="gauge")
    answer = shown(
        events.ToolCallSuccess(item=0, tool="gauge", arguments={}, output="3 m " * 2000),
        events.ToolCallFailure(item=0, reason="disk on fire", metadata=metadata),
    )

    assert "disk on fire" in text_of(answer)


def test_a_name_without_end_is_cut() -> None:
    page = result(json.dumps({"a": {"b" * 9000: 1}}))

    (tree,) = [e for e in page.elements() if e.attributes.get("class") == "tree"][:1]
    assert len(tree.text()) < 300


def test_a_tree_has_an_end() -> None:
    page = result(json.dumps({"rows": [[i] * 50 for i in range(100)]}))

    assert len(page.elements()) < 8000
    assert "more" in page.text()


# --- activity ---------------------------------------------------------------------------------


def test_a_step_is_updated_in_place_and_a_new_start_is_a_new_line() -> None:
    step = {"family": "research", "step": "search"}
    answer = shown(
        events.ActivityStep(**step, phase="start", label="One"),
        events.ActivityStep(**step, phase="done"),
        events.ActivityStep(**step, phase="start", label="Two"),
    )

    lines = [e.text() for e in parse(answer.snapshot()).elements() if e.tag == "li"]
    assert [line.split(":")[0].strip() for line in lines] == ["Done", "Started"]


def step(name: str, phase: str, **more: object) -> events.ActivityStep:
    return events.ActivityStep(family="deep_think", step=name, phase=phase, **more)  # type: ignore[arg-type]


def head_of(answer: Answer) -> str:
    heads = [e for e in parse(answer.snapshot()).elements() if e.tag == "summary"]
    return " ".join(heads[0].text().split())


def test_all_steps_of_a_run_are_one_list_whatever_stands_between() -> None:
    answer = shown(step("a", "note"), *message("between"), step("b", "note"))

    assert sum(e.tag == "ol" for e in parse(answer.snapshot()).elements()) == 1
    assert "2 steps" in head_of(answer)


def test_steps_are_open_until_the_text_begins() -> None:
    def is_open(answer: Answer) -> bool:
        return next(
            "open" in e.attributes
            for e in parse(answer.snapshot()).elements()
            if e.tag == "details"
        )

    assert is_open(shown(step("a", "start", label="Digging")))
    assert not is_open(shown(step("a", "start"), *message("So it is.")))
    assert not is_open(shown(step("a", "start"), end("stopped")))


def test_a_note_neither_begins_a_step_nor_ends_one() -> None:
    answer = shown(step("a", "start", ref="1"), step("again", "note", ref="1"))

    lines = [e.text() for e in parse(answer.snapshot()).elements() if e.tag == "li"]
    assert [line.split(":")[0].strip() for line in lines] == ["Started", "Note"]


def test_a_plan_says_how_many_of_its_parts_are_done() -> None:
    answer = shown(
        step("plan_created", "done", label="Plan", detail={"total_subtasks": 3}),
        step("subtask_started", "start", ref="index:1", label="Part 1 of 3: springs"),
        step(
            "subtask_completed",
            "done",
            ref="index:1",
            detail={"input_tokens": 1200, "output_tokens": 34},
        ),
        step("subtask_started", "start", ref="index:2", label="Part 2 of 3: mouths"),
    )

    assert "1 of 3 parts" in head_of(answer)
    assert "Part 1 of 3: springs 1,234 tokens" in text_of(answer)
    assert "Done: Part 1 of 3" in text_of(answer)


def test_a_part_of_a_plan_is_one_line_from_planned_to_done() -> None:
    def part(name: str, phase: str, **detail: object) -> events.ActivityStep:
        ref = None if phase == "note" else "index:1"
        return step(name, phase, label=f"{name} 2", ref=ref, detail={"subtask_index": 1, **detail})

    planned = part("subtask_planned", "note")
    begun = part("subtask", "start")
    again = part("subtask_retried", "note", attempt=3)

    lines = [
        [
            " ".join(e.text().split())
            for e in parse(shown(*story).snapshot()).elements()
            if e.tag == "li"
        ]
        for story in (
            [planned],
            [planned, begun],
            [planned, begun, again],
            [planned, begun, again, part("subtask", "done")],
        )
    ]
    assert lines == [
        ["Planned: subtask_planned 2"],
        ["Started: subtask 2"],
        ["Started: subtask 2 tried 3 times"],
        ["Done: subtask 2 tried 3 times 0.3 s"],
    ]


@pytest.mark.parametrize("total", [0, -1, True, "7", 10**9, 2.5])
def test_a_plan_of_no_sensible_length_has_none(total: object) -> None:
    answer = shown(step("plan_created", "done", detail={"total_subtasks": total}))

    assert "parts" not in head_of(answer)


@pytest.mark.parametrize(
    ("detail", "is_linked"),
    [
        ({"arguments": {"url": "https://example.org/a"}}, True),
        ({"url": "http://example.org/a"}, True),
        ({"url": "javascript:alert(1)"}, False),
        ({"url": 7, "arguments": "https://example.org"}, False),
    ],
)
def test_a_step_links_to_the_page_it_reads_if_that_is_safe(
    detail: dict[str, object], is_linked: bool
) -> None:
    answer = shown(step("reading", "start", label="Reading", detail=detail))

    assert any(e.tag == "a" for e in parse(answer.snapshot()).elements()) is is_linked


def test_a_step_that_brings_something_to_read_has_it_in_a_fold() -> None:
    answer = shown(step("structured_synthesis", "done", label="Ready", detail={"finding": "wet"}))

    assert '"finding"' in text_of(answer)


def test_what_a_step_brings_is_a_tree_without_what_its_line_says() -> None:
    said = "The weir was wet."
    claim = step("claim_emitted", "note", label=said, detail={"claim": said})
    brief = step("context_brief_created", "done", label="Ready", detail={"brief": said})

    assert "step-more" not in shown(claim).snapshot()
    html = shown(brief).snapshot()
    assert html.index("step-more") < html.index('class="tree') < html.index(said)


def test_a_result_of_a_call_that_this_run_did_not_make_was_given_by_a_person() -> None:
    given = events.ToolCallSuccess(item=0, tool="t", arguments={}, output="o")

    assert "tool given" in shown(given).snapshot()
    assert "tool given" not in shown(events.ToolCallStart(item=0, tool="t"), given).snapshot()


def test_a_mockup_names_its_files_with_type_and_size() -> None:
    answer = shown(
        events.MockupUpdate(
            op="created",
            bundle_id="b",
            title="Shop",
            entry="index.html",
            files=[{"path": "index.html", "contentType": "text/html", "size": 2048}, {"path": "x"}],
        ),
        events.MockupUpdate(op="updated", bundle_id="b", changed=["a.css"], deleted=["x"]),
    )

    assert "2 files" in text_of(answer)
    assert "index.html text/html 2.0 kB first page" in text_of(answer)


def test_thinking_without_words_counts_none() -> None:
    hidden = shown(events.ReasoningStart(item=0, kind="hidden"), events.ReasoningEnd(item=0), end())

    assert "hidden by the server" in text_of(hidden)
    assert "words" not in text_of(hidden)


def test_the_category_of_a_refusal_is_in_words() -> None:
    answer = shown(events.RefusalDelta(item=0, content="No.", category="general_harms"))

    assert "Refused general harms" in text_of(answer)


def test_of_a_hidden_thought_it_is_told_how_much_came() -> None:
    secret = "c2VjcmV0" * 200
    answer = shown(
        events.ReasoningStart(item=0, kind="hidden"),
        events.ReplayData(kind="redacted", item=0, data={"type": "redacted", "data": secret}),
        events.ReasoningEnd(item=0),
    )

    assert "1.6 kB of encrypted text" in text_of(answer)
    assert "c2VjcmV0" not in answer.snapshot()


# --- steps ----------------------------------------------------------------------------------------


def researched(name: str) -> events.ActivityStep:
    return events.ActivityStep(
        family="research", step=name, phase="done", label=f"The {name}", ref=name
    )


def test_steps_are_called_research_only_if_something_is_looked_for() -> None:
    tool, mockup = researched("tool_call"), researched("creating_mockup")

    assert "Research 3 steps" in text_of(shown(tool, mockup, researched("reading"), end()))
    assert "Activity 2 steps" in text_of(shown(tool, mockup, end()))
    assert "Research" not in text_of(shown(tool, mockup, end()))


def test_a_single_step_is_its_own_title() -> None:
    page = parse(shown(researched("tool_call"), end()).snapshot())
    (head,) = (each for each in page.elements() if each.tag == "summary")

    assert " ".join(head.text().split()) == "Done: The tool_call"


def test_a_step_that_a_card_of_a_call_shows_is_not_shown_twice() -> None:
    call = events.ToolCallStart(item=0, tool="web_search", call_id="ws_1", executes="upstream")
    steps = [
        events.ActivityStep(family="web_search", step="search", phase=phase, label="Look", ref=ref)
        for phase, ref in (("start", "ws_1"), ("done", "ws_1"), ("done", "ws_2"))
    ]

    assert "Look" not in text_of(shown(call, *steps[:2]))
    assert text_of(shown(call, *steps)).count("Look") == 2


def test_a_call_of_a_paused_run_goes_on_below() -> None:
    call = events.ToolCallStart(item=0, tool="web_search", executes="upstream")
    paused = end("incomplete")
    paused.result.ext.stop = events.Stop(reason="pause")

    assert "Continued below" in text_of(shown(call, paused))


# --- media ----------------------------------------------------------------------------------------


def test_media_that_cannot_be_shown_say_so() -> None:
    sound = events.MediaUpdate(item=0, media_id="s", media_type="audio/mp3", data="AAAA")
    nothing = events.MediaUpdate(item=0, media_id="s", media_type="audio/*")

    assert "Sound MP3 3 bytes Not shown here. Download it" in text_of(shown(sound))
    assert "Sound There is no text for it" in text_of(shown(nothing))


WAVE = base64.b64encode(b"RIFF\x10\n\x00\x00WAVEfmt ").decode()


def test_a_sound_can_be_played_when_the_answer_has_ended() -> None:
    begun = [
        events.MediaUpdate(item=4, media_id="p", media_type="image/png", data="iVBORw0KGgoAAA=="),
        events.MediaUpdate(
            item=4,
            media_id="s",
            media_type="audio/*",
            state="partial",
            data=WAVE,
            transcript="Drip",
        ),
        events.MediaUpdate(
            item=4, media_id="s", media_type="audio/*", state="partial", data="AAAA"
        ),
    ]

    assert "It can be played when the answer has ended." in text_of(shown(*begun))
    assert "<audio" not in shown(*begun).snapshot()
    [player] = [
        each for each in parse(shown(*begun, end()).snapshot()).elements() if each.tag == "audio"
    ]
    # By its place among what came as bytes, as the file is kept.
    assert re.fullmatch(r"/r/[0-9a-f-]{36}/media/0/4/1/", player.attributes["src"])
    assert player.attributes["aria-label"] == "Sound: sound-5-2.wav"
    assert "Sound sound-5-2.wav" not in text_of(shown(*begun))


@pytest.mark.parametrize("data", ["AAAA", "no base64", "", "UklGRgAAAABBVkkg"])
def test_what_no_player_knows_has_none(data: str) -> None:
    made = events.MediaUpdate(item=0, media_id="s", media_type="audio/wav", data=data)

    assert "<audio" not in shown(made, end()).snapshot()


def test_a_file_is_called_by_its_name() -> None:
    address = "https://example.org/readings.csv"
    file = events.MediaUpdate(
        item=0, media_id="f", media_type="application/csv", url=address, transcript="readings.csv"
    )

    assert text_of(shown(file)) == "readings.csv application/csv example.org"


def sound(data: str | None = None, transcript: str | None = None) -> events.MediaUpdate:
    return events.MediaUpdate(
        item=0,
        media_id="s",
        media_type="audio/*",
        state="partial",
        data=data,
        transcript=transcript,
    )


def test_pieces_of_a_sound_are_one_sound() -> None:
    pieces = (sound(transcript="The water "), sound("AAAA"), sound("AA==", "murmurs."))

    assert "Sound in progress 4 bytes The water murmurs." in text_of(shown(*pieces))


@pytest.mark.parametrize(
    ("status", "words"),
    [("completed", "Sound 3 bytes Hush."), ("failed", "Sound not finished 3 bytes Hush.")],
)
def test_no_sound_is_in_progress_when_the_answer_has_ended(status: str, words: str) -> None:
    answer = shown(sound("AAAA", "Hush."), end(status))

    assert words in text_of(answer)
    assert "Download it" in text_of(answer)


def test_nothing_from_a_cache_is_no_news() -> None:
    cached = [
        text_of(shown(*message("x"), end(usage=events.Usage(cache_read_tokens=tokens))))
        for tokens in (0, 7)
    ]

    assert "from cache" not in cached[0]
    assert "7 from cache" in cached[1]


def test_probabilities_are_counted() -> None:
    ending = end()
    ending.result.output = [events.MessageItem(content="x", logprobs=[{"token": "x"}] * 12)]

    assert "12 with probabilities" in text_of(shown(*message("x"), ending))


# --- endings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("waiting", "The answer waits."),
        ("incomplete", "The answer is not complete."),
        ("stopped", "Stopped."),
        ("failed", "The answer failed."),
        ("cut", "The connection broke off"),
        ("interrupted", "our server stopped"),
    ],
)
def test_each_ending_has_its_own_words_and_keeps_the_text(status: str, words: str) -> None:
    answer = shown(*message("So far so good."), end(status))

    assert words in text_of(answer)
    assert "So far so good." in text_of(answer)


def test_a_complete_answer_has_no_card() -> None:
    assert "verdict" not in shown(*message("Done."), end()).snapshot()


def test_an_empty_answer_says_so() -> None:
    assert "without writing anything" in text_of(shown(START, end()))


@pytest.mark.parametrize(
    ("reason", "words"), [("length", "length limit"), ("content_filter", "content filter")]
)
def test_an_incomplete_answer_says_why(reason: str, words: str) -> None:
    ending = end("incomplete")
    ending.result.ext.stop.reason = reason  # type: ignore[assignment]

    assert words in text_of(shown(*message("x"), ending))


def test_that_a_connection_broke_off_is_said_once() -> None:
    error = events.ErrorInfo(kind="cut", message="The connection broke off. Try again.")
    answer = shown(*message("So far"), end("cut", error=error))

    assert text_of(answer).count("broke off") == 1


def test_an_error_that_came_only_with_the_ending_is_told_once() -> None:
    error = events.ErrorInfo(kind="auth", message="bad key")

    alone = text_of(shown(end("failed", error=error)))
    both = text_of(shown(events.Error(error=error), end("failed", error=error)))

    assert alone.count("The server refused the key.") == 1
    assert both.count("The server refused the key.") == 1


@pytest.mark.parametrize("kind", events.ErrorKind.__args__)
def test_each_kind_of_error_says_what_happened_and_what_to_do(kind: str) -> None:
    error = events.ErrorInfo(kind=kind)  # type: ignore[arg-type]
    card = next(
        e
        for e in parse(shown(events.Error(error=error)).snapshot()).elements()
        if "verdict" in e.attributes.get("class", "")
    )

    assert len(card.text()) > 35


# --- figures --------------------------------------------------------------------------------------


def test_figures_are_at_the_end_and_missing_ones_are_left_out() -> None:
    text = text_of(shown(*message("x"), end()))

    assert "1,234 tokens in" in text
    assert "41.2 tokens/s" in text
    assert "for thinking" not in text
    assert "loading" not in text


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_event_type_has_words_for_a_run_s_details(name: str) -> None:
    assert EVENTS[name]


@pytest.mark.parametrize(("tokens", "is_told"), [(0, False), (12, True)])
def test_thinking_is_counted_where_there_was_some(tokens: int, is_told: bool) -> None:
    ending = end()
    ending.result.stats.reasoning_output_tokens = tokens

    assert ("for thinking" in text_of(shown(*message("x"), ending))) is is_told


@pytest.mark.parametrize(("story", "is_told"), [([], False), (message("So far"), True)])
def test_the_time_of_a_failure_is_told_where_something_came(
    story: list[Event], is_told: bool
) -> None:
    ending = end("failed", error=events.ErrorInfo(kind="network"))
    ending.result.stats = events.Stats()

    assert ("in total" in text_of(shown(*story, ending))) is is_told


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 ms"),
        (40, "40 ms"),
        (449, "0.4 s"),
        (9_960, "10 s"),
        (59_400, "59 s"),
        (125_000, "2 min 5 s"),
    ],
)
def test_durations_read_well(milliseconds: int, words: str) -> None:
    assert figures.duration(milliseconds) == words


@pytest.mark.parametrize("nonsense", [float("inf"), float("nan"), -1.0, 1e308])
def test_nonsense_figures_do_not_break_the_answer(nonsense: float) -> None:
    ending = end("failed", error=events.ErrorInfo(retry_after_seconds=nonsense))
    ending.result.stats.time_to_first_token_seconds = nonsense
    ending.result.stats.tokens_per_second = nonsense

    assert "to first token" in text_of(shown(ending))


@pytest.mark.parametrize(
    ("number", "words"), [(5, "5 bytes"), (2048, "2.0 kB"), (3 * 1024**2, "3.0 MB")]
)
def test_sizes_read_well(number: int, words: str) -> None:
    assert figures.size(number) == words


# --- what is kept beside the answer -------------------------------------------------------


def artifact(content: str | None, op: Literal["created", "updated"] = "updated") -> Event:
    return events.ArtifactUpdate(op=op, artifact_id="a", title="Calc <b>", content=content)


def test_an_artifact_tells_its_version_and_what_changed() -> None:
    first = shown(artifact("1\n2\n", "created"))
    second = shown(artifact("1\n2\n", "created"), artifact("1\n3\n4\n"))
    # Whatever an earlier run made of it, this one does not know.
    later = shown(artifact("1\n"))

    assert "Calc <b> v1 " in text_of(first)
    assert "Lines added" not in text_of(first)
    assert "v2 Lines added: +2 removed: −1" in text_of(second)
    assert "Calc <b> updated" in text_of(later)


def test_the_way_to_what_is_kept_comes_with_the_end_and_leaves_the_card_alone() -> None:
    answer = Answer(RUN)
    update = artifact("1", "created")
    for event in (update, *message("text")):
        answer.apply(event)
    seq = answer.seq
    assert "card-open" not in answer.snapshot()

    answer.apply(end())

    patches = answer.patches_since(seq)
    assert f'hx-target="#r{RUN}-a1-way"' in patches
    assert "a1-told" not in patches
    address = reverse("artifact_made", args=[UUID(RUN), 1])
    assert f'href="{address}"' in answer.snapshot()


def test_a_mockup_that_was_only_announced_leads_nowhere() -> None:
    answer = shown(events.MockupUpdate(op="calling", identifier="m"), end())

    assert "card-open" not in answer.snapshot()


def test_an_update_of_an_earlier_mockup_counts_what_it_changed() -> None:
    made = events.MockupUpdate(op="created", bundle_id="b", files=[{"path": "x"}, {"path": "y"}])
    change = events.MockupUpdate(op="updated", bundle_id="b", changed=["x"])

    assert "2 files" in text_of(shown(made, change))
    assert "1 changed" in text_of(shown(change))
