"""The conversations of the screens: what is asked of which demo model, or what a script answers."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from tests.support.browser import scenes, streams
from tests.support.browser.scenes import ON_ONE_PAGE, Scene
from tests.support.upstream.script import Script

RICH = r"""A **moving average** smooths the hourly levels. Take the mean of the last $n$ values:

$$\bar{x}_t = \frac{1}{n} \sum_{i=0}^{n-1} x_{t-i}$$

## In Python

```python
from collections import deque


def moving_average(levels: list[float], *, window: int = 6) -> list[float]:
    # From the first whole window on; before that there is no mean to speak of, only single levels.
    recent: deque[float] = deque(maxlen=window)
    means = []
    for level in levels:
        recent.append(level)
        if len(recent) == window:
            means.append(sum(recent) / window)
    return means
```

1. A *short* window follows the river quickly.
2. A *long* one hides the tide:
   - six hours keep it,
   - twenty-five hours remove it.

> The gauge at the mill reports in centimetres; everything else is in metres.

### What it gives

| Station | River | Kilometre | 06:00 | 09:00 | 12:00 | 15:00 | 18:00 | 21:00 | Mean | Warning level | Operator |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|
| Old mill | Lune | 12.4 | 2.31 | 2.28 | 2.19 | 2.02 | 1.97 | 1.94 | 2.12 | 3.40 | Waterways office |
| Upper lock | Lune | 18.9 | 1.10 | 1.12 | 1.15 | 1.21 | 1.20 | 1.18 | 1.16 | 2.10 | Waterways office |
| Harbour | Estuary | 31.0 | 4.52 | 3.10 | 1.88 | 2.95 | 4.40 | 4.61 | 3.58 | 5.20 | Port authority |

The data is at https://example.org/gauges/lune, the method in `docs/method.md`.
"""
PEOPLE_MARKDOWN = """Can you check this **before Friday**?

- the *upper lock* reports `1.10`
- the old mill reports `2.31`

```sql
SELECT station, avg(level) FROM levels GROUP BY station;
```

See https://example.org/gauges and <b>the notes</b>.
"""
LONG_THOUGHT = (
    "The person asks about the level at the mill. Six values are there. The tide matters below the lock, "
    "so a window of six hours keeps it. ",
    "Let me add them up: 2.31 + 2.28 + 2.19 + 2.02 + 1.97 + 1.94 = 12.71, and a sixth of that is 2.118. ",
)

GUIDE = """\
The river rises in the hills, where **three springs** meet, and is eleven kilometers long.

| Part | Length | What there is to see |
| --- | ---: | --- |
| Springs | 2 km | Alder woods, and the three basins of 1790 |
| Meadows | 5 km | Herons in the morning |
| Mill and lock | 4 km | The wheel runs on Sundays |

After heavy rain, above **2.40 m** at the mill, take the upper path.

"""

# Answered by the demo's servers, which choose a scene by the model and the words.
SCENES: dict[str, Scene] = {
    "tool": Scene("lmstudio", "demo-reasoner", "Which invoices are open? Use a tool."),
    "tool-failed": Scene("lmstudio", "demo-reasoner", "Remind them, even if a tool fails."),
    "search": Scene("xerotier", "demo-research", "How often should we back up the shared drive?"),
    "deep-think": Scene("xerotier", "demo-deep-think", "Think the plan for the lock through."),
    "analyst": Scene("xerotier", "demo-analyst", "Look at the levels of last week."),
    "picture": Scene("openai_responses", "demo-agent", "Draw the river at the old mill."),
    "python": Scene("openai_responses", "demo-agent", "Compute the mean with Python."),
    "citations": Scene("openai_responses", "demo-agent", "Search for the tide tables."),
    "log-probabilities": Scene(
        *("openai_chat", "demo-writer", "Hello."), asks={"logprobs": "true", "top_logprobs": "3"}
    ),
    "alternatives": Scene("openai_chat", "demo-writer", "Say hello.", asks={"n": "3"}),
    "media": Scene("openai_chat", "demo-gateway", "Show me what you have."),
    "error": Scene("lmstudio", "demo-writer", "Show me an error."),
    "cut": Scene("lmstudio", "demo-writer", "Write something and cut it."),
    "refusal": Scene("openai_chat", "demo-writer", "Please refuse this."),
    "artifacts": Scene("xerotier", "demo-artifacts", "Write the report on the levels."),
    "artifact-page": Scene("xerotier", "demo-artifacts", "Make an html page of it."),
    "mockup": Scene("xerotier", "demo-mockup", "Build a board for the team, then update it."),
    "question": Scene("xerotier", "demo-question", "Find a table for the team lunch."),
    "question-two": Scene("xerotier", "demo-question", "Ask me two things."),
    "question-form": Scene("xerotier", "demo-question", "Give me fields to fill in."),
    "approval": Scene("openai_responses", "demo-agent", "Close the lock, if I approve."),
    "tool-result": Scene(
        "openai_chat", "demo-writer", "Which invoices are open? Use the tool.", has_tools=True
    ),
}


def _pages_of_scenes() -> Iterator[tuple[str, Sequence[Scene]]]:
    by_dialect = attrgetter("dialect")
    for dialect, found in groupby(sorted(scenes.SCENES, key=by_dialect), by_dialect):
        group = list(found)
        for number, start in enumerate(range(0, len(group), ON_ONE_PAGE), start=1):
            name = f"scenes-{dialect}-{number}".replace("_", "-")
            yield name, group[start : start + ON_ONE_PAGE]


# All scenes of the demo's servers, as many on one page as it shows.
PAGES_OF_SCENES = dict(_pages_of_scenes())


def say(*texts: str) -> Script:
    return streams.telling(*texts)


# Answered by the server "Workshop GPU" as these scripts say.
SCRIPTED: dict[str, tuple[str, Script]] = {
    "text": ("How do I smooth the levels of a river?", say(RICH)),
    "markdown-message": (PEOPLE_MARKDOWN, say("Both values are plausible for this week.")),
    "short": ("Thanks!", say("You are welcome.")),
}
# Two answers to one message.
BRANCHES = (
    say("How about *Undine*, or *Kingfisher*?"),
    say("My favorite is **Heron**: it stands still where the water is calm."),
)
# Three answers to one message, side by side.
COMPARED = {
    "comparison": (
        say(
            "The **barge**: it is slow, and carries everything.\n\n",
            RICH.partition("## In Python")[0],
        ),
        say("A *punt*. It fits under the bridge at high water, and two people can lift it."),
        streams.telling(
            "Let me think about", end_with=streams.fail("The model ran out of memory.")
        ),
    ),
    "comparison-live": (
        streams.telling(GUIDE, streams.gate("comparison-live")),
        streams.telling("A *punt*. It fits under the bridge."),
        streams.scripted(streams.BEGINNING, streams.gate("comparison-live")),
    ),
}
# They wait at the gate of their name until the site ends; the one called stopped is stopped there.
LIVE: dict[str, tuple[str, Script]] = {
    "waiting": ("Is the lock open today?", streams.scripted(streams.gate("waiting"))),
    "thinking": (
        "What is the mean level at the mill?",
        streams.scripted(
            streams.BEGINNING,
            streams.open_item("reasoning"),
            *map(streams.think, LONG_THOUGHT),
            streams.gate("thinking"),
        ),
    ),
    "growing": (
        "Describe the river to a visitor.",
        streams.scripted(
            streams.BEGINNING,
            streams.open_item("reasoning"),
            streams.think("A visitor wants to know where to walk, and what there is to see."),
            streams.close_item("reasoning"),
            streams.open_item("message"),
            streams.say(GUIDE),
            streams.say("Below the **old mill** it slows down and"),
            streams.gate("growing"),
        ),
    ),
    "stopped": (
        "Write the history of the mill.",
        streams.scripted(
            streams.BEGINNING,
            streams.open_item("message"),
            streams.say("The mill was built in 1790 by two brothers who"),
            streams.gate("stopped"),
        ),
    ),
    "message-queue": (
        "What grows along the mill race?",
        streams.scripted(
            streams.BEGINNING,
            streams.open_item("message"),
            streams.say("Mostly alder and willow, and in the shade of the bridge"),
            streams.gate("message-queue"),
        ),
    ),
    "message-queue-held": (
        "Which trees stand at the weir?",
        streams.scripted(
            streams.BEGINNING,
            streams.open_item("message"),
            streams.say("Mostly alder and willow, and in the shade of the bridge"),
            streams.gate("message-queue-held"),
        ),
    ),
}
