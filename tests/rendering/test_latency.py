"""Where the time of an answer went: every millisecond once, from the events' own times."""

from lxml import html

from chat import events
from chat.events import Event
from chat.rendering.latency import KINDS, WIDTH, Latency, shares
from chat.rendering.patches import Answer
from tests.rendering.stories import RUN, end


def timed(*story: tuple[int, Event]) -> list[Event]:
    made = []
    for seq, (t, event) in enumerate(story, start=1):
        event.seq, event.t = seq, t
        made.append(event)
    return made


def thoughtful() -> list[Event]:
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


def spent_on(story: list[Event]) -> dict[str, int]:
    latency = Latency()
    for event in story:
        latency.add(event)
    return dict(latency.spent(story[-1].t))


def test_each_millisecond_goes_to_what_the_run_was_at() -> None:
    assert spent_on(thoughtful()) == {
        "first": 250,
        "load": 1000,
        "prompt": 250,
        "reasoning": 500,
        "tools": 600,
        "idle": 110,
        "writing": 300,
    }


def test_nothing_is_lost_and_nothing_is_invented() -> None:
    story = thoughtful()

    assert sum(spent_on(story).values()) == story[-1].t


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    story = timed(
        (500, events.MessageDelta(item=0, content="a")),
        (200, events.ReasoningDelta(item=1, content="b")),
        (900, end()),
    )

    assert sum(spent_on(story).values()) == 900


def test_without_a_clock_there_is_no_bar() -> None:
    story = thoughtful()
    for event in story:
        event.t = 0

    assert shares(spent_on(story).items()) == []


def test_the_pieces_fill_the_bar_in_order() -> None:
    pieces = shares([("writing", 333), ("first", 333), ("load", 334), ("tools", 0)])

    assert [piece.kind for piece in pieces] == ["first", "load", "writing"]
    assert [piece.x for piece in pieces] == [0, 333, 667]
    assert sum(piece.width for piece in pieces) == WIDTH


def test_what_is_too_short_to_be_drawn_is_named_all_the_same() -> None:
    pieces = shares([("first", 1), ("writing", 100_000)])

    assert [(piece.name, piece.width) for piece in pieces] == [
        (KINDS["first"], 0),
        (KINDS["writing"], WIDTH),
    ]


def answer_of(story: list[Event]) -> Answer:
    answer = Answer(RUN)
    for event in story:
        answer.apply(event)
    return answer


def test_the_bar_stands_below_the_answer_with_a_legend_in_words() -> None:
    page = html.fromstring(str(answer_of(thoughtful()).snapshot()))

    (bar,) = page.xpath("//*[contains(@class, 'figures')]//*[@class='latency']")
    assert bar.get("tabindex") == "0"
    said = [" ".join(item.text_content().split()) for item in bar.xpath(".//li")]
    assert "thinking 0.5 s 17 %" in said
    assert "loading the model 1.0 s 33 %" in said
    assert bar.xpath(".//rect[@class='spent-load']") != []


def test_an_answer_that_is_not_over_has_no_bar() -> None:
    assert "latency" not in answer_of(thoughtful()[:-1]).snapshot()


def broken_off() -> list[Event]:
    """As the reaper of another process ends it: it cannot know when that was."""
    story = [*thoughtful()[:-1], end("interrupted")]
    story[-2].t = 0
    story[-1].seq = len(story)
    return story


def test_of_an_end_that_nobody_saw_the_time_goes_to_the_last_event() -> None:
    spent = spent_on(broken_off())

    assert spent["writing"] == 200
    assert sum(spent.values()) == 2900


def test_the_bar_says_that_nobody_saw_the_end() -> None:
    assert "Up to the last event" in answer_of(broken_off()).snapshot()
    assert "Up to the last event" not in answer_of(thoughtful()).snapshot()


def test_a_note_neither_begins_anything_nor_ends_it() -> None:
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


def test_what_took_half_a_percent_is_not_told_as_nothing() -> None:
    told = shares([("load", 5), ("writing", 995)])

    assert [share.percent for share in told] == ["< 1 %", "100 %"]
