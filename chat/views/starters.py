"""Words to begin with, where the demo is there to answer them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chat.models import Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    icon: str
    title: str
    text: str


# The demo chooses what it shows by a word in the prompt; each of these holds one of them.
STARTERS = (
    Starter(
        icon="brain",
        title="Watch it think",
        text="Think it through: which of two tributaries carries a river's name?",
    ),
    Starter(
        icon="wrench",
        title="Let it use a tool",
        text="Use a tool to read the gauge at Mill Bridge.",
    ),
    Starter(
        icon="code",
        title="Read some code",
        text="Show me the code that follows a stream of events.",
    ),
    Starter(
        icon="table",
        title="Compare in a table",
        text="Compare four rivers in a table.",
    ),
)


def starters_for(upstreams: Iterable[Upstream]) -> tuple[Starter, ...]:
    return STARTERS if any(upstream.is_demo for upstream in upstreams) else ()
