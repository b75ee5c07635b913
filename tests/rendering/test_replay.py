"""Snapshot at k plus patches is the snapshot at the end, for every k and every batching."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chat import events
from chat.events import Event
from chat.rendering.patches import Answer
from tests.rendering.dom import Page
from tests.rendering.stories import MARKDOWN, RICH, RUN, end, message, numbered, told

FIXTURES = Path(__file__).parents[1] / "fixtures"


def recorded() -> list[tuple[str, list[Event]]]:
    files = sorted(FIXTURES.rglob("*.events.jsonl")) if FIXTURES.exists() else []
    return [
        (str(file.relative_to(FIXTURES)), [events.decode(line) for line in lines_of(file)])
        for file in files
    ]


def lines_of(file: Path) -> list[bytes]:
    return [line for line in file.read_bytes().split(b"\n") if line.strip()]


def long_list(items: int) -> str:
    return "".join(f"- item **{i}** with some words in it\n" for i in range(items))


def long_table(rows: int) -> str:
    return "| a | b |\n|---|---|\n" + "".join(f"| {i} | `{i}` and words |\n" for i in range(rows))


def plan() -> list[Event]:
    """Deep thinking: parts that change in place, and text that folds the steps away."""
    steps = [
        ("plan_created", "done", "", {"total_subtasks": 2}),
        ("subtask", "start", "1", {}),
        ("subtask", "start", "2", {}),
        ("subtask", "done", "1", {"input_tokens": 5}),
        ("claim_emitted", "note", "", {"claim": "wet"}),
        ("subtask", "failed", "2", {}),
        ("synthesis", "start", "", {}),
    ]
    thought: list[Event] = [
        events.ActivityStep(
            family="deep_think",
            step=name,
            phase=phase,  # type: ignore[arg-type]
            ref=ref or None,
            detail=detail,
        )
        for name, phase, ref, detail in steps
    ]
    late = events.ActivityStep(family="research", step="more", phase="start")
    given = events.ToolCallSuccess(item=3, tool="t", arguments={}, output="o")
    text = message("So it is.\n\nTwo blocks.", item=1)
    return numbered([*thought, *text, late, given, end()])


def cited() -> list[Event]:
    """Sources with places in the text, some of them where no mark can be; choices; probabilities."""
    text = "# Head\n\nThe weir is **old**. See [it](https://x.org/a) and `code`.\n\n```\nx\n```\n\nEnd."
    places = [6, 24, 40, 45, len(text), 10_000]
    sources = [
        events.Citation(kind="url", url=f"https://example.org/{at % 4}", end=at) for at in places
    ]
    say = message(text, item=0, size=7)
    odds = [{"token": "The", "logprob": -0.1, "top_logprobs": [{"token": "A", "logprob": -2}]}]
    return numbered(
        [
            *say[:-1],
            *(events.CitationAdd(item=0, citation=one) for one in sources),
            events.LogprobsAdd(item=0, tokens=odds),
            say[-1],
            events.CitationAdd(item=0, citation=sources[0]),
            *message("Another.", choice=1),
            *message("A third.", choice=2),
            end(),
        ]
    )


def calls() -> list[Event]:
    """Calls in a row, twice, at once and one after the other, one of them left open."""

    def call(item: int, *, choice: int = 0) -> list[Event]:
        output = '{"levels": [1, 2, {"at": "https://example.org/weir"}]}'
        return [
            events.ToolCallStart(item=item, choice=choice, tool=f"gauge_{item}"),
            events.ToolCallDelta(item=item, choice=choice, fragment='{"a": '),
            events.ToolCallArguments(
                item=item, choice=choice, tool=f"gauge_{item}", arguments={"a": item}
            ),
            events.ToolCallSuccess(
                item=item, choice=choice, tool="gauge", arguments={}, output=output
            ),
        ]

    failure = events.FailureMetadata(type="execution_failed", tool_name="gauge_2")
    failed = [*call(2)[:3], events.ToolCallFailure(item=2, reason="dry", metadata=failure)]
    at_once = [event for pair in zip(call(4), call(5), strict=True) for event in pair]
    alone = call(7)
    given = events.ToolCallSuccess(item=9, tool="t", arguments={}, output="o")
    return numbered(
        [
            given,
            *(call(1) + failed + message("Between.", item=3)),
            *(at_once + message("More.", item=6) + alone),
            *(call(0, choice=1) + call(1, choice=1) + call(8)[:3]),
            end("waiting"),
        ]
    )


def late() -> list[Event]:
    """Text and probabilities of items that have ended."""
    odds = [{"token": "Late", "logprob": -0.1}]
    return numbered(
        [
            *message("One[^1] and [x].\n\n[^1]: Note.\n", item=0),
            events.MessageDelta(item=0, content=" More **words**[^1].\n\n```\nx\n"),
            events.LogprobsAdd(item=0, tokens=odds),
            events.LogprobsAdd(item=0, tokens=odds * 2),
            events.MessageDelta(item=0, content="[x]: https://example.org"),
            events.ReasoningStart(item=1),
            events.ReasoningDelta(item=1, content="Hm. " * 2000),
            events.ReasoningEnd(item=1),
            events.ReasoningDelta(item=1, content="And that. "),
            events.ReasoningDelta(item=1, content="Or this."),
            end(),
        ]
    )


STORIES: dict[str, list[Event]] = {
    "late": late(),
    "calls": calls(),
    "cited": cited(),
    "long thought": numbered(
        [
            events.ReasoningStart(item=0),
            *(events.ReasoningDelta(item=0, content=MARKDOWN[:90]) for _ in range(70)),
            events.ReasoningEnd(item=0),
            events.ToolCallStart(item=1, tool="t"),
            events.ToolCallSuccess(item=1, tool="t", arguments={}, output="long " * 2000),
            *message("So.", item=2),
            end(),
        ]
    ),
    "plan": plan(),
    "rich": RICH,
    "letter by letter": told(MARKDOWN, size=1),
    "one delta": told(MARKDOWN, size=10_000),
    "carriage returns": told(MARKDOWN.replace("\n", "\r\n"), size=3),
    "late definition": told("See [it] here.\n\nMore.\n\n[it]: https://example.org\n", size=4),
    "notes": told(
        "One[^1], two[^b] and none[^c].\n\n[^1]: First,\n    again[^1].\n[^b]: Second.\n\nMore.\n",
        size=3,
    ),
    "many notes": told("".join(f"a[^{i}]\n\n[^{i}]: n {i}\n\n" for i in range(60)), size=80),
    "list": told(long_list(300), size=60),
    "table": told(long_table(300), size=60),
    "one line": told("word " * 3000, size=90),
    "unbroken": told("x" * 12_000, size=500),
    "fence": told("```py\n" + "x = '```'\n" * 300 + "```\nafter", size=60),
    "unclosed": told("text\n\n```\ncode\n  more", size=2),
    "sections": told("para *one*\n\n" * 130, size=50),
    "empty": numbered([events.ChatStart(model_instance_id="m"), end()]),
    "stopped early": numbered([events.ChatStart(model_instance_id="m"), end("stopped")]),
    "no end": numbered(message("Some *text*\n\nthat is cut", item=0)[:-1]),
}
STORIES |= {name: story for name, story in recorded() if story}


def snapshots(story: list[Event]) -> list[tuple[str, str]]:
    """What a page shows that is loaded after 0, 1, 2, … events."""
    answer = Answer(RUN)
    shown = [Page(RUN, answer.snapshot(), answer.phase()).state()]
    for event in story:
        answer.apply(event)
        shown.append(Page(RUN, answer.snapshot(), answer.phase()).state())
    return shown


def page_after(story: list[Event], count: int) -> Page:
    answer = Answer(RUN)
    for event in story[:count]:
        answer.apply(event)
    return Page(RUN, answer.snapshot(), answer.phase())


def starting_points(story: list[Event]) -> list[int]:
    """Every one of a short story; of a long one, enough."""
    step = max(1, len(story) // 150)
    return sorted({*range(0, len(story), step), len(story)})


@pytest.mark.parametrize("name", STORIES)
def test_patches_bring_a_page_of_any_moment_to_the_end(name: str) -> None:
    story = STORIES[name]
    final, live = Answer(RUN), Answer(RUN)
    for event in story:
        final.apply(event)
    expected = Page(RUN, final.snapshot(), final.phase()).state()

    for k in starting_points(story):
        for event in story[live.seq : k]:
            live.apply(event)
        page = Page(RUN, live.snapshot(), live.phase())
        page.apply(final.patches_since(k))

        assert page.state() == expected


@pytest.mark.parametrize("name", STORIES)
def test_a_page_that_follows_in_any_batches_shows_each_snapshot(name: str) -> None:
    for seed in range(3):
        follow(STORIES[name], random.Random(seed))


def follow(story: list[Event], choose: random.Random) -> None:
    live = Answer(RUN)
    page = Page(RUN, live.snapshot(), live.phase())

    while live.seq < len(story):
        seen = live.seq
        for event in story[seen : seen + choose.choice((1, 1, 2, 7, 40))]:
            live.apply(event)
        page.apply(live.patches_since(seen))

        fresh = Answer(RUN)
        for event in story[: live.seq]:
            fresh.apply(event)
        if choose.random() < 0.2 or live.seq == len(story):
            assert page.state() == Page(RUN, fresh.snapshot(), fresh.phase()).state()


@pytest.mark.parametrize("name", STORIES)
def test_replacement_frames_rebuild_the_answer(name: str) -> None:
    story = STORIES[name]
    for count in {len(story), len(story) * 2 // 3, len(story) // 3, 0}:
        answer = Answer(RUN)
        for event in story[:count]:
            answer.apply(event)
        expected = Page(RUN, answer.snapshot(), answer.phase()).state()

        for limit in (300, 5000, 65536):
            page = Page(RUN, "<p>lost</p>", "lost")
            for frame in answer.replacement(limit):
                page.apply(frame)

            assert page.state() == expected


def test_replacement_frames_keep_to_their_limit() -> None:
    answer = Answer(RUN)
    for event in told("A paragraph of *some* length.\n\n" * 4000, size=200):
        answer.apply(event)

    frames = answer.replacement(65536)

    assert len(frames) > 4
    assert max(len(frame.encode()) for frame in frames) < 66_500


@pytest.mark.parametrize("choice", [0, 1])
def test_what_stands_inside_of_an_element_keeps_to_the_limit_too(choice: int) -> None:
    first: list[Event] = message("First.") if choice else []
    called = [
        event
        for item in range(1, 80)
        for event in (
            events.ToolCallStart(item=item, choice=choice, tool="gauge"),
            events.ToolCallSuccess(
                item=item, choice=choice, tool="gauge", arguments={}, output="3 m " * 900
            ),
        )
    ]
    answer = Answer(RUN)
    for event in numbered([*first, *called, end()]):
        answer.apply(event)

    frames = answer.replacement(65536)

    assert len(frames) > 4
    assert max(len(frame.encode()) for frame in frames) < 66_500


def test_nothing_new_gives_no_patch() -> None:
    answer = Answer(RUN)
    for event in RICH:
        answer.apply(event)

    assert answer.patches_since(len(RICH)) == ""


def test_an_event_that_was_applied_changes_nothing() -> None:
    once, twice = Answer(RUN), Answer(RUN)
    for event in RICH:
        once.apply(event)
        twice.apply(event)
        twice.apply(event)

    assert once.snapshot() == twice.snapshot()


def test_an_event_is_never_changed_by_being_shown() -> None:
    before = [events.encode(event) for event in RICH]
    answer = Answer(RUN)
    for event in RICH:
        answer.apply(event)
    answer.snapshot()

    assert [events.encode(event) for event in RICH] == before


fragments = st.sampled_from(
    [
        *("# h\n", "- a\n", "* b\n", "  - c\n", "1. d\n", "> q\n", "```\n", "~~~py\n", "    i\n"),
        *("|a|b|\n", "|-|-|\n", "---\n", "===\n", "\n", "\n\n", "text ", "**b**", "`c`", "[l]: "),
        *("https://x.org\n", "[l]", "'t'", "<b>", "&amp;", "\\", "\t", "\r", "é", "- [x] t\n", "!"),
        *("$$\n", "$$", "$x_1$ ", "\\[\n", "\\]\n", "\\(a\\) ", "= y_2\n"),
    ]
)
documents = st.lists(fragments, max_size=40).map("".join)
note_fragments = st.sampled_from(["[^1]", "[^1]: n\n", "[^b] ", "[^b]: ", "    more\n"])
noted = st.lists(fragments | note_fragments, max_size=40).map("".join)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(document=documents | noted, size=st.integers(1, 30), since=st.integers(0, 60))
def test_any_document_arrives_the_same_by_patches(document: str, size: int, since: int) -> None:
    story = told(document, size=size)
    since = min(since, len(story))
    page = page_after(story, since)
    final = Answer(RUN)
    for event in story:
        final.apply(event)

    page.apply(final.patches_since(since))

    assert page.state() == Page(RUN, final.snapshot(), final.phase()).state()
