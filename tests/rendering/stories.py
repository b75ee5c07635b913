"""Runs as lists of events, for the tests of rendering."""

from collections.abc import Iterable

from chat import events
from chat.events import Event
from chat.rendering.patches import Answer

RUN = "0123456789abcdef0123456789abcdef"


def numbered(story: Iterable[Event], *, step_ms: int = 130) -> list[Event]:
    made = list(story)
    for seq, event in enumerate(made, start=1):
        event.seq = seq
        event.t = seq * step_ms
    return made


def answer_after(story: Iterable[Event]) -> Answer:
    answer = Answer(RUN)
    for event in story:
        answer.apply(event)
    return answer


def answer_of(*story: Event) -> Answer:
    """The answer after these events, which are numbered here."""
    return answer_after(numbered(story))


def cut(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def message(text: str, *, item: int = 0, size: int = 5, choice: int = 0) -> list[Event]:
    deltas = [
        events.MessageDelta(item=item, choice=choice, content=part) for part in cut(text, size)
    ]
    start = events.MessageStart(item=item, choice=choice)
    return [start, *deltas, events.MessageEnd(item=item, choice=choice)]


def end(status: str = "completed", **extension: object) -> events.ChatEnd:
    stats = events.Stats(
        input_tokens=1234,
        total_output_tokens=56,
        tokens_per_second=41.25,
        time_to_first_token_seconds=0.44,
    )
    ext = events.Extension(status=status, stop=events.Stop(reason="stop"), **extension)
    return events.ChatEnd(
        result=events.Result(model_instance_id="m", output=[], stats=stats, ext=ext)
    )


def told(text: str, *, size: int = 5) -> list[Event]:
    """One message, from start to end."""
    start = events.ChatStart(model_instance_id="m")
    return numbered([start, *message(text, size=size), end()])


MARKDOWN = """# Rivers

A *tributary* carries its water into a **larger** river, see [the list][rivers] or
<https://example.org/über>.

Setext
------

- [x] spring
- [ ] mouth
  1. delta
  2. estuary

  ```python
  def flow(rate: float) -> str:
      return f"<{rate}>"
  ```
* another list

> quoted
lazily

| River | km |
|:------|---:|
| Rhine | 1233 |
| Elbe  | 1094 |

```js title="a.js"
// <script>alert(1)</script>
const x = `${1 + 1}`;

```

    indented

![a map](https://example.org/map.png "the map") and `inline \u202e code`

---

1. one

2. two

[rivers]: https://example.org/rivers "Rivers"
~~~
never closed
"""

RICH: list[Event] = numbered(
    [
        events.ChatStart(model_instance_id="m"),
        events.ModelLoadStart(model_instance_id="m"),
        *(events.ModelLoadProgress(model_instance_id="m", progress=p / 4) for p in range(5)),
        events.ModelLoadEnd(model_instance_id="m", load_time_seconds=2.5),
        events.PromptProcessingStart(),
        events.PromptProcessingProgress(progress=0.5),
        events.PromptProcessingEnd(),
        events.ReasoningStart(item=0),
        *(events.ReasoningDelta(item=0, content=part) for part in cut(MARKDOWN[:160], 9)),
        events.ReasoningEnd(item=0),
        events.ToolCallStart(
            item=1,
            tool="weather",
            executes="upstream",
            provider_info=events.ProviderInfo(type="plugin", plugin_id="mcp/weather"),
        ),
        *(events.ToolCallDelta(item=1, fragment=part) for part in cut('{"city": "<Oslo>"}', 4)),
        events.ToolCallArguments(item=1, tool="weather", arguments={"city": "<Oslo>"}),
        events.ToolCallSuccess(
            item=1, tool="weather", arguments={"city": "<Oslo>"}, output='{"degrees": 4}'
        ),
        events.ToolCallStart(item=2, tool="forecast"),
        events.ToolCallDelta(item=2, fragment="{"),
        events.ToolCallFailure(
            item=2,
            reason="arguments are not JSON",
            metadata=events.FailureMetadata(type="invalid_arguments", tool_name="forecast"),
            arguments_raw="{",
        ),
        events.ToolCallStart(item=3, tool="left_open"),
        events.ToolCallArguments(item=3, tool="left_open", arguments={}),
        events.ActivityStep(family="research", step="searching", phase="start", label="Search"),
        events.ActivityStep(family="research", step="reading", phase="note", label="Read"),
        events.ActivityStep(family="research", step="searching", phase="done"),
        *message(MARKDOWN, item=4, size=7),
        events.CitationAdd(
            item=4,
            citation=events.Citation(
                kind="web", title="A page", url="https://example.org/p", cited_text="so it says"
            ),
        ),
        events.CitationAdd(item=4, citation=events.Citation(kind="web", url="javascript:alert(1)")),
        events.ActivityStep(family="deep_think", step="plan", phase="progress", label="Plan"),
        events.RefusalDelta(item=5, content="I would rather "),
        events.RefusalDelta(item=5, content="**not**.", category="weather"),
        events.MediaUpdate(
            item=6, media_id="p", media_type="image/png", state="partial", data="iVBORw0KGgo="
        ),
        events.MediaUpdate(
            item=6, media_id="p", media_type="image/png", data="iVBORw0KGgoAAA==", transcript="map"
        ),
        events.MediaUpdate(
            item=6, media_id="q", media_type="audio/mp3", url="https://example.org/a.mp3"
        ),
        events.MediaUpdate(
            item=6, media_id="r", media_type="audio/*", state="partial", transcript="Drip "
        ),
        events.MediaUpdate(
            item=6, media_id="r", media_type="audio/*", state="partial", data="AAAA"
        ),
        events.ArtifactUpdate(
            op="created", artifact_id="a", title="Calc", language="html", content="<b>1</b>"
        ),
        events.ArtifactUpdate(op="updated", artifact_id="a", content="<b>2</b>"),
        events.MockupUpdate(op="calling", identifier="shop"),
        events.MockupUpdate(
            op="created", identifier="shop", bundle_id="b1", files=[{"path": "index.html"}]
        ),
        events.MockupUpdate(op="updated", bundle_id="b1", changed=["a.css"], deleted=["x"]),
        events.MockupUpdate(op="error", bundle_id="b1", message="disk full", code="full"),
        events.AskQuestion(
            ask_id="k", question="Which <one>?", options=["this", {"label": "that"}]
        ),
        events.AskQuestion(
            ask_id="p",
            question="Allow it?",
            style="approval",
            tool="open_sluice",
            arguments={"notches": 2, "note": "<now>", "gates": [1], "script": "open\n" * 9},
            provider_info=events.ProviderInfo(type="mcp", server_label="river"),
        ),
        events.ContextFork(branch_id="br", branch_name="aside", message_count=3),
        *message("Another *choice*.\n\nWith two blocks.", item=0, choice=1),
        events.UsageUpdate(usage=events.Usage(output_tokens=3)),
        events.LogprobsAdd(item=4, tokens=[]),
        events.ReplayData(kind="signature", data="opaque"),
        events.MetaUpdate(values={"a": 1}),
        events.VendorRaw(dialect="x", event="odd", data={"b": 2}),
        events.Error(
            error=events.ErrorInfo(
                kind="overloaded", message="<b>busy</b>", status=529, retry_after_seconds=12
            )
        ),
        end("failed", error=events.ErrorInfo(kind="overloaded")),
    ]
)
