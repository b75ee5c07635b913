"""Where the time of an answer went: each millisecond counted once, by the times of the events."""

from lxml import html

from chat import events
from chat.events import Event
from chat.rendering.components import fill
from chat.rendering.latency import KINDS, WIDTH, Latency, shares
from tests.rendering.stories import answer_after, end


def timed(*story: tuple[int, Event]) -> list[Event]:
    made = []
    for seq, (t, event) in enumerate(story, start=1):
        event.seq, event.t = seq, t
        made.append(event)
    return made


def story_of_all_phases() -> list[Event]:
    return timed(
        (50, events.ChatStart(model_instance_id="m")),
        (100, events.ModelLoadStart(model_instance_id="m")),
        (1100, events.ModelLoadEnd(model_instance_id="m", load_time_seconds=1)),
        (1150, events.PromptProcessingStart()),
        (1400, events.PromptProcessingEnd()),
        (1500, events.ReasoningStart(item=0)),
        (1600, events.ReasoningDelta(item=0, content="Hm.")),
        (2000, events.ReasoningEnd(item=0)),
        (2000, events.ToolCallStart(item=1, tool="gauge")),
        (2600, events.ToolCallSuccess(item=1, tool="gauge", arguments={}, output="3 m")),
        (2700, events.MessageStart(item=2)),
        (2700, events.MessageDelta(item=2, content="Three")),
        (2900, events.MessageDelta(item=2, content=" metres")),
        (3000, events.MessageEnd(item=2)),
        (3010, end()),
    )


def interrupted_story() -> list[Event]:
    """As another process ends the run of one that died: the time of the end is unknown."""
    story = [*story_of_all_phases()[:-1], end("interrupted")]
    story[-2].t = 0
    story[-1].seq = len(story)
    return story


def spent_on(story: list[Event]) -> dict[str, int]:
    latency = Latency()
    for event in story:
        latency.add(event)
    return dict(latency.spent(story[-1].t))


def test_each_millisecond_goes_to_one_phase() -> None:
    story = story_of_all_phases()

    spent = spent_on(story)

    assert spent == {
        "first": 250,
        "load": 1000,
        "prompt": 250,
        "reasoning": 500,
        "tools": 600,
        "idle": 110,
        "writing": 300,
    }
    assert sum(spent.values()) == story[-1].t


def test_clock_that_goes_back_loses_no_time() -> None:
    story = timed(
        (500, events.MessageDelta(item=0, content="a")),
        (200, events.ReasoningDelta(item=1, content="b")),
        (900, end()),
    )

    assert sum(spent_on(story).values()) == 900


def test_note_neither_begins_nor_ends_a_phase() -> None:
    story = timed(
        (0, events.ChatStart(model_instance_id="m")),
        (0, events.ActivityStep(family="research", step="reading", phase="start")),
        (100, events.ActivityStep(family="research", step="found", phase="note")),
        (1000, events.ActivityStep(family="research", step="reading", phase="done")),
        (1000, events.MessageStart(item=0)),
        (1200, events.ActivityStep(family="research", step="found", phase="note")),
        (2000, events.MessageEnd(item=0)),
        (2000, end()),
    )

    assert spent_on(story) == {"work": 1000, "writing": 1000}


def test_unknown_end_counts_up_to_the_last_event() -> None:
    spent = spent_on(interrupted_story())

    assert spent["writing"] == 200
    assert sum(spent.values()) == 2900


# --- the bar ----------------------------------------------------------------------------------


def test_bar_is_filled_in_order() -> None:
    pieces = shares([("writing", 333), ("first", 333), ("load", 334), ("tools", 0)])

    assert [piece.kind for piece in pieces] == ["first", "load", "writing"]
    assert [piece.x for piece in pieces] == [0, 333, 667]
    assert sum(piece.width for piece in pieces) == WIDTH


def test_share_too_short_to_draw_is_still_listed() -> None:
    pieces = shares([("first", 1), ("writing", 100_000)])

    assert [(piece.name, piece.width) for piece in pieces] == [
        (KINDS["first"], 0),
        (KINDS["writing"], WIDTH),
    ]


def test_share_of_half_a_percent_is_not_zero() -> None:
    pieces = shares([("load", 5), ("writing", 995)])

    assert [piece.percent for piece in pieces] == ["< 1%", "100%"]


def test_events_without_times_have_no_bar() -> None:
    story = story_of_all_phases()
    for event in story:
        event.t = 0

    assert shares(spent_on(story).items()) == []


def bar_of(story: list[Event]) -> html.HtmlElement:
    spent = shares(spent_on(story).items())
    return html.fromstring(fill("latency", shares=spent, is_end_unseen=not story[-1].t))


def test_bar_has_a_legend_in_words() -> None:
    bar = bar_of(story_of_all_phases())

    legend = [" ".join(item.text_content().split()) for item in bar.xpath(".//li")]
    assert "Thinking 0.5 s 17%" in legend
    assert "Loading the model 1.0 s 33%" in legend
    assert bar.xpath(".//rect[@class='spent-load']") != []


def test_answer_has_no_bar() -> None:
    assert "latency" not in answer_after(story_of_all_phases()).snapshot()


def test_bar_says_that_the_end_is_unknown() -> None:
    assert "up to the last event" in bar_of(interrupted_story()).text_content()
    assert "up to the last event" not in bar_of(story_of_all_phases()).text_content()
