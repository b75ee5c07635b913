"""Runs of many kinds that the patches must replay, and the recordings of the dialects."""

from pathlib import Path

from chat import events
from chat.events import Event
from tests.rendering.stories import MARKDOWN, RICH, end, message, numbered, told

FIXTURES = Path(__file__).parents[1] / "fixtures"


def recorded(file: Path) -> list[Event]:
    return [events.decode(line) for line in file.read_bytes().split(b"\n") if line.strip()]


def long_list(items: int) -> str:
    return "".join(f"- item **{i}** with some words in it\n" for i in range(items))


def long_table(rows: int) -> str:
    return "| a | b |\n|---|---|\n" + "".join(f"| {i} | `{i}` and words |\n" for i in range(rows))


def plan() -> list[Event]:
    """Deep thinking: parts that change in place, and a text that folds the steps."""
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
    """Citations at places in the text, some where no mark can be; choices; probabilities."""
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


def cited_late() -> list[Event]:
    """Citations after the end of a text, and of the part of a text above a card."""
    places = (9, 40, 12)
    sources = [
        events.CitationAdd(
            item=0, citation=events.Citation(kind="url", url=f"https://example.org/{at}", end=at)
        )
        for at in places
    ]
    *first, _ = message("The *weir* leaks.\n\n")
    card = events.ArtifactUpdate(op="created", artifact_id="a", title="Plan", content="x = 1")
    _, *second = message("It is [old][o].\n\n[o]: https://example.org/old\n\nSo is the mill.")
    return numbered(
        [events.ChatStart(model_instance_id="m"), *first, card, *second, *sources, end()]
    )


def calls() -> list[Event]:
    """Groups of tool calls, parallel and sequential, one of them left open."""

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


def programs() -> list[Event]:
    """Programs of the server side by side, which call tools; one of the calls is left open."""

    def call(item: int, caller: str | None = None) -> list[Event]:
        return [
            events.ToolCallStart(item=item, tool=f"t{item}", call_id=f"c{item}", caller=caller),
            events.ToolCallArguments(item=item, tool=f"t{item}", arguments={"n": item}),
        ]

    def program(item: int, tool: str = "program") -> events.ToolCallStart:
        return events.ToolCallStart(item=item, tool=tool, call_id=f"c{item}", executes="upstream")

    done = events.ToolCallSuccess(item=2, tool="t2", arguments={}, output="o")
    return numbered(
        [
            *(program(0), program(1, "code_execution")),
            *(call(2, "c0") + call(3, "c1") + [done] + call(4, "c0") + call(5, "gone") + call(6)),
            end("waiting"),
        ]
    )


def late() -> list[Event]:
    """Text and probabilities that arrive after their items have ended."""
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
    "programs": programs(),
    "cited": cited(),
    "cited late": cited_late(),
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
