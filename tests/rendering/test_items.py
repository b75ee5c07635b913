"""Every kind of event is shown: templates, styles, states, the phase strip, and reasoning."""

import re
from pathlib import Path

import pytest

from chat import events
from chat.events import EVENT_TYPES, Event, OutputItem
from chat.rendering.cards import ITEM_KINDS
from chat.rendering.messages import EVENTS
from chat.rendering.patches import HANDLERS, INVISIBLE, Answer
from tests.rendering.dom import parse
from tests.rendering.shown import page_of, phase_of, text_of
from tests.rendering.stories import RICH, RUN, answer_after, answer_of, end, message, numbered, told

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "templates" / "rendering").glob("*.html"))
STYLES = [
    *(ROOT / "static" / "rendering").glob("*.css"),
    ROOT / "static" / "components" / "button.css",
    ROOT / "static" / "files" / "files.css",
    ROOT / "static" / "run_details" / "run_details.css",
]
# Classes without a rule of their own, or with one in the style sheet of every page.
WITHOUT_RULES = {
    *("word", "icon", "label", "item", "message", "artifact", "mockup", "media", "pair"),
    *("card-way", "fold", "facts", "detail", "elapsed", "items", "copy", "copy-word", "download"),
    *("quiet", "visually-hidden", "latency-key"),
}
START = events.ChatStart(model_instance_id="m")
PART_OF_A_SOUND = events.MediaUpdate(
    item=0, media_id="s", media_type="audio/wav", data="AAAA", state="partial"
)
LOAD = events.ModelLoadProgress(model_instance_id="big", progress=0.654)


# --- completeness ------------------------------------------------------------------------


def test_every_event_type_has_a_renderer_or_a_reason() -> None:
    kinds = EVENT_TYPES.values()

    assert [kind for kind in kinds if kind not in HANDLERS and not INVISIBLE[kind]] == []


def test_every_event_type_has_words_for_the_run_details() -> None:
    assert [name for name in EVENT_TYPES if not EVENTS[name]] == []


def test_every_item_kind_has_a_renderer() -> None:
    kinds = {str(kind.__struct_config__.tag) for kind in OutputItem.__args__}

    assert kinds - set(ITEM_KINDS) == set()


def test_rich_story_has_every_event_type() -> None:
    assert {type(event) for event in RICH} == set(EVENT_TYPES.values())


class Novelty(events.EventBase, tag="novelty", kw_only=True):
    words: str = ""


def test_event_without_a_renderer_gets_a_generic_card() -> None:
    text = text_of(Novelty(words="never <seen>"))  # type: ignore[arg-type]

    assert "novelty" in text
    assert "never <seen>" in text


def test_unknown_events_are_counted_and_not_shown() -> None:
    answer = answer_of(events.VendorRaw(dialect="x", text="odd"), events.VendorRaw(dialect="x"))

    assert answer.unknown_events == 2
    assert "odd" not in answer.snapshot()


def test_every_template_is_used() -> None:
    source = "".join(path.read_text() for path in (ROOT / "chat" / "rendering").rglob("*.py"))

    pages = "".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))

    assert [
        path.stem
        for path in TEMPLATES
        if f'"{path.stem}"' not in source and f'"rendering/{path.name}"' not in pages
    ] == []


def test_templates_contain_no_script_style_or_patch() -> None:
    forbidden = re.compile(r"<script|<style|\son\w+=|\sstyle=|<head|</?hx-|\|\s*safe")

    assert TEMPLATES
    assert [path.stem for path in TEMPLATES if forbidden.search(path.read_text())] == []


def test_every_class_has_a_style() -> None:
    answer = Answer(RUN)
    classes: set[str] = set()
    for event in RICH:
        answer.apply(event)
        for html in (answer.snapshot(), answer.phase()):
            for element in parse(html).elements():
                classes |= set(element.attributes.get("class", "").split())
    style = "".join(sheet.read_text() for sheet in STYLES)

    assert {name for name in classes - WITHOUT_RULES if f".{name}" not in style} == set()


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


def test_unnumbered_event_gets_the_next_seq() -> None:
    answer = Answer(RUN)
    for event in message("text"):
        answer.apply(event)

    assert answer.seq == 3
    assert "text" in answer.snapshot()


def test_ids_begin_with_the_run() -> None:
    ids = page_of(*RICH).ids()

    assert ids
    assert all(id.startswith(f"r{RUN}-") for id in ids)


# --- the phase strip ------------------------------------------------------------------------


def test_waiting_answer_says_so_in_the_strip_alone() -> None:
    assert "Waiting for the model…" in Answer(RUN).phase()
    assert "Waiting for the model…" not in Answer(RUN).snapshot()


def test_progress_has_figures() -> None:
    assert "Loading the model… big 65%" in phase_of(START, LOAD)
    assert 'value="65"' in answer_of(START, LOAD).phase()


def test_phase_without_figures_has_no_bar() -> None:
    assert "<progress" not in answer_of(START, events.PromptProcessingStart()).phase()


def test_strip_names_the_phase(subtests: pytest.Subtests) -> None:
    for event, words in (
        (events.PromptProcessingProgress(progress=0.5), "Reading the prompt… 50%"),
        (events.PromptProcessingProgress(progress=float("nan")), "Reading the prompt… 0%"),
        (events.PromptProcessingProgress(progress=7.0), "Reading the prompt… 100%"),
        (events.ReasoningStart(item=0), "Thinking…"),
        (events.ToolCallStart(item=0, tool="grep"), "Using a tool… grep"),
        (events.ToolCallArguments(item=0, tool="grep", arguments={}), "Using a tool… grep"),
        (events.MessageStart(item=0), "Writing…"),
        (events.AskQuestion(ask_id="a", question="?"), "Needs input"),
        (events.ActivityStep(family="f", step="s", phase="start", label="Dig"), "Working… Dig"),
        (events.MockupUpdate(op="calling", identifier="m"), "Creating a mockup…"),
        (PART_OF_A_SOUND, "Generating audio…"),
        (
            events.ToolCallArguments(item=0, tool="web_search", arguments={"query": "herons"}),
            "Searching… herons",
        ),
        (
            events.ActivityStep(
                family="research", step="searching", phase="start", label="Searching: tides"
            ),
            "Searching… tides",
        ),
    ):
        with subtests.test(msg=words):
            assert phase_of(START, event).startswith(words)


def test_strip_names_the_last_step_that_is_not_done() -> None:
    first, second = (
        events.ActivityStep(family="f", step=f"s{n}", phase="start", label=f"Part {n}", ref=str(n))
        for n in (1, 2)
    )
    done = events.ActivityStep(family="f", step="s1", phase="done", label="Part 1", ref="1")

    assert phase_of(START, first, second, done).startswith("Working… Part 2")


def test_strip_is_empty_at_the_end() -> None:
    assert phase_of(START, end()) == ""


def test_preview_of_thinking_is_sent_once_a_second() -> None:
    story: list[Event] = [events.ReasoningStart(item=0)]
    story += [events.ReasoningDelta(item=0, content="x") for _ in range(30)]
    answer = Answer(RUN)
    heads = 0
    for event in numbered(story, step_ms=100):
        seen = answer.seq
        answer.apply(event)
        heads += "-head" in answer.patches_since(seen) and seen > 0

    # Once a second, and with the first words.
    assert heads == 4


# --- reasoning and refusals ---------------------------------------------------------------------


def test_reasoning_is_folded_and_has_a_duration() -> None:
    page = page_of(
        events.ReasoningStart(item=0),
        events.ReasoningDelta(item=0, content="Let me see."),
        events.ReasoningEnd(item=0),
    )

    fold = page.find_all("details")[0]
    assert "open" not in fold.attributes
    assert "Thought for 0.3 s 3 words" in page.words()


def test_live_reasoning_shows_its_last_line() -> None:
    thought = [events.ReasoningDelta(item=0, content=text) for text in ("Hm.\n", "**Why", " not")]
    begun = [events.ReasoningStart(item=0), *thought[:1]]
    later = events.ReasoningDelta(item=0, content="?")

    def summary_of(*story: events.Event) -> str:
        return answer_after(numbered(story, step_ms=1000)).snapshot()

    assert "Thinking… Hm." in text_of(*begun)
    assert "Thinking… Why not?" in parse(summary_of(*begun, *thought[1:], later)).words()
    # The strip has the one running time.
    assert "data-elapsed-ms" not in answer_of(*begun, *thought[1:]).snapshot()


@pytest.mark.parametrize(
    ("kind", "words"), [("summary", "summary"), ("hidden", "doesn’t share this thinking")]
)
def test_incomplete_reasoning_says_so(kind: str, words: str) -> None:
    assert words in text_of(events.ReasoningStart(item=0, kind=kind))  # type: ignore[arg-type]


def test_hidden_reasoning_has_no_word_count() -> None:
    text = text_of(events.ReasoningStart(item=0, kind="hidden"), events.ReasoningEnd(item=0), end())

    assert "hidden by the server" in text
    assert "words" not in text


def test_hidden_reasoning_shows_its_encrypted_size() -> None:
    secret = "c2VjcmV0" * 200
    answer = answer_of(
        events.ReasoningStart(item=0, kind="hidden"),
        events.ReplayData(kind="redacted", item=0, data={"type": "redacted", "data": secret}),
        events.ReasoningEnd(item=0),
    )

    assert "1.6 KB of encrypted text" in parse(answer.snapshot()).words()
    assert "c2VjcmV0" not in answer.snapshot()


def test_refusal_names_its_category_in_words() -> None:
    refusal = events.RefusalDelta(item=0, content="No.", category="general_harms")

    assert "Refused general harms" in text_of(refusal)


# --- cards in the text --------------------------------------------------------------------------


def artifact(op: str = "created") -> events.ArtifactUpdate:
    return events.ArtifactUpdate(op=op, artifact_id="a", title="Invoice", content="x = 1")  # type: ignore[arg-type]


def said(text: str) -> events.MessageDelta:
    return events.MessageDelta(item=0, content=text)


def items_of(*story: Event) -> list[str]:
    (items,) = page_of(START, events.MessageStart(item=0), *story).find_all(class_="items")
    return [str(item.attributes["class"]).split()[-1] for item in items.children]  # type: ignore[union-attr]


def test_artifact_stands_where_it_was_made() -> None:
    between = [said("Here it is:"), artifact(), said("And a second version:")]
    changed = [artifact("updated"), said("Both are kept.")]

    assert items_of(*between, end()) == ["message", "artifact", "message"]
    assert items_of(*between, *changed, end()) == ["message", "artifact", "message", "message"]


@pytest.mark.parametrize("before", ["Here is the", "```\ncode.\n"])
def test_artifact_does_not_part_a_sentence_or_code(before: str) -> None:
    assert items_of(said(before), artifact(), said(" file."), end()) == ["message", "artifact"]


def test_citation_finds_its_part_of_the_text() -> None:
    story = [said("Here it is:"), artifact(), said("And a second one.")]
    cited = events.Citation(kind="url", title="Rivers", url="https://example.org/", end=10)

    page = page_of(
        events.MessageStart(item=0), *story, events.CitationAdd(item=0, citation=cited), end()
    )

    first, second = page.find_all(class_="message")
    assert "Rivers" in first.words()
    assert "Here it is1:" in first.words()
    assert "Rivers" not in second.words()
