"""What is run against which targets, in which order; how long all of it takes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.bench.load.measure import Scenario

GAP_MS = 20.0
EVERYTHING = ("direct", "nginx", "passthrough", "external", "embedded")
PROXIES = ("nginx", "passthrough", "external", "embedded")
TRIBUTARY = ("external", "embedded")
MAIN = ("external",)

# Before anything is measured: imports, templates and connections that a first request brings.
WARM_UP = Scenario(name="warm-up", streams=2, count=20, gap_ms=GAP_MS)


@dataclass(frozen=True, slots=True)
class Step:
    scenario: Scenario
    targets: Sequence[str]


def paced(name: str, streams: int, seconds: float, **more: object) -> Scenario:
    count = round(seconds * 1000 / GAP_MS)
    return Scenario(name=name, streams=streams, count=count, gap_ms=GAP_MS, **more)  # type: ignore[arg-type]


QUIET = Scenario(name="quiet", streams=1, count=20, gap_ms=250)
OPENINGS = Scenario(name="openings", streams=20, count=3, gap_ms=GAP_MS, one_by_one=True)
UNPACED = Scenario(
    name="unpaced", streams=50, count=2000, gap_ms=0, has_gate=True, window_seconds=5
)


def openings(rate: int, seconds: float) -> Scenario:
    """Short answers, begun at this rate, so that opening and ending them is what costs."""
    return Scenario(
        name=f"openings-{rate}",
        streams=round(rate * seconds),
        count=10,
        gap_ms=50,
        kind="words",
        rate=rate,
        leaves=True,
    )


# The first comes right after the processes have started: it is the one whose memory counts.
FULL = (
    Step(paced("n200", 200, 20), EVERYTHING),
    Step(paced("n200-markdown", 200, 20, kind="markdown"), ("nginx", "external", "embedded")),
    Step(paced("n200-paragraph", 200, 20, kind="paragraph"), ("nginx", "external", "embedded")),
    Step(paced("n1", 1, 5), EVERYTHING),
    Step(QUIET, PROXIES),
    Step(OPENINGS, PROXIES),
    Step(paced("n50", 50, 9), PROXIES),
    Step(UNPACED, EVERYTHING),
    Step(paced("n500", 500, 10), ("direct", "nginx", "passthrough", "external")),
    Step(paced("n100-unseen", 100, 12, viewers=0), MAIN),
    Step(paced("n100", 100, 12), MAIN),
    Step(paced("n100-two-viewers", 100, 12, viewers=2), MAIN),
    Step(paced("n50-long", 50, 18), MAIN),
    Step(paced("stops", 200, 40, stops=True), MAIN),
    Step(paced("n200-500", 200, 10), ("nginx", "external", "embedded")),
    Step(openings(15, 30), TRIBUTARY),
    Step(openings(50, 60), TRIBUTARY),
)
QUICK = (
    Step(paced("n50", 50, 8), ("nginx", "passthrough", "external")),
    Step(paced("n1", 1, 4), ("nginx", "passthrough", "external")),
    Step(QUIET, ("passthrough", "external")),
    Step(OPENINGS, ("passthrough", "external")),
    Step(UNPACED, ("passthrough", "external")),
    Step(paced("stops", 50, 20, stops=True), MAIN),
)
ROUNDS = 3


def chosen(steps: Sequence[Step], scenarios: Sequence[str], targets: Sequence[str]) -> list[Step]:
    """Those that were asked for; all of them where nothing was."""
    picked = [step for step in steps if not scenarios or step.scenario.name in scenarios]
    cut = [
        Step(step.scenario, [name for name in step.targets if not targets or name in targets])
        for step in picked
    ]
    return [step for step in cut if step.targets]


def lasting(steps: Sequence[Step], seconds: float) -> list[Step]:
    """The same, but openings go on for so long."""
    return [
        Step(replace(step.scenario, streams=round(step.scenario.rate * seconds)), step.targets)
        if step.scenario.leaves
        else step
        for step in steps
    ]


def most_streams(steps: Sequence[Step]) -> int:
    return max(step.scenario.streams for step in [*steps, Step(WARM_UP, ())])


def streams_of(steps: Sequence[Step], target: str) -> int:
    """How many conversations a target needs in one round."""
    used = [step.scenario.streams for step in steps if target in step.targets]
    return sum(used) + WARM_UP.streams
