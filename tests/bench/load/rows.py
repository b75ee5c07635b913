"""The figures with their bars and goals, answered from what was measured.

The bar must hold, the goal is aimed at. Ratios are medians of the ratios of each round. A second
answer of a row is given for the other shape of Tributary, or for the same on Markdown.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.bench.load.arithmetic import median, median_ratio
from tests.bench.load.measure import Measured
from tests.bench.load.run import Outcome

WINDOW_MS = 50.0
# nginx per 1,000 deltas at 200 streams on an undisturbed machine of the kind the bars are for.
UNDISTURBED_MS = (11.0, 16.0)
# What else may run on the machine, in cores, before the figures are worth nothing.
QUIET_CORES = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One line of the table. ``value`` is compared with ``bar`` and ``goal``: at most those, or
    with ``is_floor`` at least. NaN: not measured in this run."""

    row: str
    figure: str
    unit: str
    value: float
    bar: float
    goal: float
    note: str = ""
    is_floor: bool = False

    def meets(self, limit: float) -> bool:
        return self.value >= limit if self.is_floor else self.value <= limit

    @property
    def verdict(self) -> str:
        if math.isnan(self.value):
            return "not measured"
        if self.meets(self.goal):
            return "goal"
        return "bar" if self.meets(self.bar) else "MISSED"


class Figures:
    """What was measured, by scenario and target. ``main`` is the scenario at 200 streams, or
    what stands for it in a short run."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._by: dict[tuple[str, str], list[Measured]] = {}
        for one in outcome.measured:
            self._by.setdefault((one.scenario, one.target), []).append(one)
        self.main = "n200" if self.of("n200", "external") or self.of("n200", "embedded") else "n50"

    def of(self, scenario: str, target: str) -> list[Measured]:
        return self._by.get((scenario, target), [])

    def median(
        self, scenario: str, target: str, figure: Callable[[Measured], float | None]
    ) -> float:
        return median(figure(one) for one in self.of(scenario, target))

    def ratio(
        self,
        scenario: str,
        target: str,
        figure: Callable[[Measured], float],
        *,
        to: str,
        in_scenario: str = "",
    ) -> float:
        above = {one.round: figure(one) for one in self.of(scenario, target)}
        below = {one.round: figure(one) for one in self.of(in_scenario or scenario, to)}
        rounds = sorted(set(above) & set(below))
        return median_ratio([above[n] for n in rounds], [below[n] for n in rounds])

    @property
    def nginx_ms(self) -> float:
        """CPU of nginx per 1,000 deltas, where the bars are taken."""
        return self.median(self.main, "nginx", _cpu)

    @property
    def other_cores(self) -> float:
        return median(one.other_cores for one in self.outcome.measured)

    @property
    def is_disturbed(self) -> bool:
        least, most = UNDISTURBED_MS
        return not least <= self.nginx_ms <= most or self.other_cores > QUIET_CORES


def _cpu(one: Measured) -> float:
    return one.cpu_ms


def _whole(one: Measured) -> float:
    return one.whole_cpu_ms


def _p50(one: Measured) -> float:
    return one.latency_ms[0]


def _p99(one: Measured) -> float:
    return one.latency_ms[2]


def _first_p50(one: Measured) -> float:
    return one.first_ms[0]


def _first_p95(one: Measured) -> float:
    return one.first_ms[1]


def _stream_kb(one: Measured) -> float:
    """Of our processes: what PostgreSQL and Redis keep is theirs to bound."""
    return sum(size for kind, size in one.stream_kb.items() if kind not in ("PostgreSQL", "Redis"))


def _idle_kb(one: Measured) -> float:
    return sum(one.idle_kb.get(kind, 0) for kind in ("web", "web + runner", "pass-through"))


def answers(outcome: Outcome) -> list[Answer]:
    """All rows in their order, those of the runner and web process first."""
    figures = Figures(outcome)
    found: list[Answer] = []
    for target in ("external", "embedded"):
        found += _answers_of(figures, target)
    found += _micro(outcome.micro)
    return sorted(found, key=lambda answer: int(answer.row.rstrip("abcm")))


def _answers_of(figures: Figures, target: str) -> Iterable[Answer]:
    n = figures.main
    suffix = "" if target == "external" else ", embedded"
    main = (n, target)

    def answer(
        row: str, figure: str, unit: str, value: float, bar: float, goal: float, **more: object
    ) -> Answer:
        return Answer(
            row=row, figure=figure + suffix, unit=unit, value=value, bar=bar, goal=goal, **more
        )  # type: ignore[arg-type]

    streams = n.removeprefix("n")
    at_200, at_50 = ((6, 4), (9, 6)) if target == "external" else ((5, 3), (8, 5))
    for row, name, figure, (bar, goal) in (
        ("1m", "n200-markdown", "CPU per 1,000 deltas, 200 streams of Markdown", at_200),
        ("1a", n, f"the same, {streams} streams of plain words", at_200),
        ("1b", "n200-paragraph", "the same, one paragraph for the whole answer", at_200),
        ("1c", "n50", "the same, 50 streams of plain words", at_50),
    ):
        yield answer(
            row,
            figure,
            "× nginx",
            figures.ratio(name, target, _cpu, to="nginx"),
            bar,
            goal,
            note=f"{figures.median(name, target, _cpu):.0f} ms; "
            f"nginx {figures.median(name, 'nginx', _cpu):.1f} ms",
        )
    yield answer(
        "2",
        f"CPU per 1,000 deltas, {streams} streams",
        "× pass-through",
        figures.ratio(*main, _cpu, to="passthrough"),
        1.3,
        0.85,
        note=f"pass-through {figures.median(n, 'passthrough', _cpu):.0f} ms",
    )
    yield answer(
        "4",
        "latency p50",
        "windows",
        figures.median(*main, _p50) / WINDOW_MS,
        1.0,
        0.75,
        note=f"{figures.median(*main, _p50):.0f} ms",
    )
    yield answer(
        "5",
        "latency p99",
        "windows",
        figures.median(*main, _p99) / WINDOW_MS,
        2,
        1.5,
        note=f"{figures.median(*main, _p99):.0f} ms",
    )
    yield answer(
        "6",
        "1 quiet stream: latency p50",
        "× pass-through",
        figures.ratio("quiet", target, _p50, to="passthrough"),
        5,
        2.5,
        note=f"{figures.median('quiet', target, _p50):.2f} ms, pass-through "
        f"{figures.median('quiet', 'passthrough', _p50):.2f} ms",
    )
    yield answer(
        "7",
        "1 stream: first delta p50, with the POST",
        "× pass-through",
        figures.ratio("openings", target, _first_p50, to="passthrough"),
        12,
        6,
        note=f"{figures.median('openings', target, _first_p50):.1f} ms, pass-through "
        f"{figures.median('openings', 'passthrough', _first_p50):.1f} ms",
    )
    yield answer(
        "8",
        "50 streams: first delta p95",
        "× pass-through",
        figures.ratio("n50", target, _first_p95, to="passthrough"),
        10,
        4,
        note=f"{figures.median('n50', target, _first_p95):.0f} ms, pass-through "
        f"{figures.median('n50', 'passthrough', _first_p95):.0f} ms",
    )
    if target == "external":
        yield from _five_hundred(figures)
    yield answer(
        "10",
        "50 unpaced streams: deltas a second",
        "× pass-through",
        figures.ratio("unpaced", target, lambda one: one.deltas_per_second, to="passthrough"),
        1,
        3,
        is_floor=True,
        note=f"{figures.median('unpaced', target, lambda one: one.deltas_per_second):,.0f}/s",
    )
    yield answer(
        "11a",
        "frames to the browser per delta",
        "",
        figures.median(*main, lambda one: one.frames_per_delta),
        0.4,
        0.33,
    )
    yield answer(
        "11b",
        "bytes to the browser per delta",
        "× upstream",
        figures.median(*main, lambda one: one.bytes_per_delta / one.upstream_bytes_per_delta),
        0.6,
        0.3,
        note=f"{figures.median(*main, lambda one: one.bytes_per_delta):.0f} bytes",
    )
    yield answer(
        "12",
        "memory per open stream",
        "× pass-through",
        figures.ratio(*main, _stream_kb, to="passthrough"),
        4,
        2,
        note=f"{figures.median(*main, _stream_kb):.0f} kB",
    )
    yield answer(
        "13",
        "memory of the idle web process",
        "× pass-through",
        figures.ratio(*main, _idle_kb, to="passthrough"),
        4,
        3,
        note=f"{figures.median(*main, _idle_kb) / 1024:.0f} MB",
    )
    ours = [one for one in figures.outcome.measured if one.target == target]
    yield answer(
        "14",
        "deltas lost or doubled, all runs",
        "",
        float(sum(one.lost + one.doubled for one in ours)) if ours else math.nan,
        0,
        0,
        note=f"of {sum(one.deltas for one in ours):,}",
    )
    yield from _openings(figures, target, suffix)
    if target == "external":
        yield from _stops(figures)
        yield from _second_viewer(figures)
        yield from _linear(figures)


def _five_hundred(figures: Figures) -> Iterable[Answer]:
    runs = figures.of("n500", "external")
    open_ended = min((one.completed for one in runs), default=math.nan)
    yield Answer(
        row="9a",
        figure="500 streams: complete",
        unit="of 500",
        value=float(open_ended),
        bar=500,
        goal=500,
        is_floor=True,
        note=f"pass-through {min((one.completed for one in figures.of('n500', 'passthrough')), default=0)}",
    )
    p99 = figures.median("n500", "external", lambda one: one.all_latency_ms[2])
    yield Answer(
        row="9b",
        figure="500 streams: latency p99, ramp included",
        unit="s",
        value=p99 / 1000,
        bar=1,
        goal=0.2,
        note=f"without the ramp {figures.median('n500', 'external', _p99):.0f} ms; "
        f"{figures.median('n500', 'external', lambda one: one.cores):.2f} cores",
    )


def _stops(figures: Figures) -> Iterable[Answer]:
    runs = figures.of("stops", "external")
    unstopped = sum(one.unstopped for one in runs)
    longest = max((one.stop_ms[2] for one in runs), default=math.nan)
    yield Answer(
        row="15",
        figure="stop under load: longest until the upstream sees the close",
        unit="s",
        value=math.inf if unstopped else longest / 1000,
        bar=1,
        goal=0.25,
        note=f"{sum(one.stops for one in runs)} stops, p50 "
        f"{figures.median('stops', 'external', lambda one: one.stop_ms[0]):.0f} ms, p99 "
        f"{figures.median('stops', 'external', lambda one: one.stop_ms[1]):.0f} ms",
    )


def _second_viewer(figures: Figures) -> Iterable[Answer]:
    unseen, one, two = (
        figures.median(name, "external", _cpu)
        for name in ("n100-unseen", "n100", "n100-two-viewers")
    )
    yield Answer(
        row="16",
        figure="a second viewer of a run: its CPU",
        unit="× the first's",
        value=(two - one) / (one - unseen),
        bar=0.4,
        goal=0.25,
        note=f"nobody {unseen:.0f} ms, one {one:.0f}, two {two:.0f} per 1,000",
    )


def _linear(figures: Figures) -> Iterable[Answer]:
    """Not among the 18: cost per delta when there are twice as many streams, or deltas."""
    twice = figures.median("n200", "external", _cpu) / figures.median("n100", "external", _cpu)
    longer = figures.median("n50-long", "external", _cpu) / figures.median("n50", "external", _cpu)
    yield Answer(
        row="19a",
        figure="CPU per delta of 200 streams",
        unit="× that of 100",
        value=twice,
        bar=1.15,
        goal=1.05,
    )
    yield Answer(
        row="19b",
        figure="CPU per delta of streams twice as long",
        unit="× that of short ones",
        value=longer,
        bar=1.15,
        goal=1.05,
    )


def _openings(figures: Figures, target: str, suffix: str) -> Iterable[Answer]:
    """Not among the 18: short answers, of which opening and ending them is most of the cost."""

    def answer(
        row: str, figure: str, unit: str, value: float, bar: float, goal: float, note: str = ""
    ) -> Answer:
        return Answer(
            row=row, figure=figure + suffix, unit=unit, value=value, bar=bar, goal=goal, note=note
        )

    bar, goal = (20, 15) if target == "external" else (15, 10)
    for row, rate in (("20a", 15), ("20b", 50)):
        runs = figures.of(f"openings-{rate}", target)
        yield answer(
            row,
            f"{rate} openings a second: CPU per short answer",
            "ms",
            median(one.opening_ms for one in runs),
            bar,
            goal,
            note=_shares(runs),
        )
    runs = figures.of("openings-50", target)
    p50, p95 = (median(one.first_ms[place] for one in runs) for place in (0, 1))
    yield answer("21a", "50 openings a second: first delta p50", "ms", p50, 100, 60)
    yield answer("21b", "50 openings a second: first delta p95", "ms", p95, 250, 100)
    requests = median(one.requests_per_stream for one in runs)
    yield answer("22", "requests of the browser per answer", "", requests, 0, 0)
    yield answer(
        "23",
        "200 streams of 500 deltas, everything counted: CPU",
        "× nginx",
        figures.ratio("n200-500", target, _whole, to="nginx"),
        10,
        6,
        note=f"{figures.median('n200-500', target, _whole):.0f} ms per 1,000",
    )


def _shares(runs: Sequence[Measured]) -> str:
    """CPU per answer of each kind of process."""
    kinds = runs[0].whole_cpu if runs else ()
    shares = [(kind, median(one.opening_cpu_ms[kind] for one in runs)) for kind in kinds]
    return ", ".join(f"{kind} {share:.1f}" for kind, share in shares)


def _micro(found: dict[str, float]) -> Sequence[Answer]:
    def of(name: str) -> float:
        return found.get(name, math.nan)

    return [
        Answer(
            row="17",
            figure="Markdown of a 50 kB answer in frames",
            unit="× one render",
            value=of("markdown_ratio"),
            bar=6,
            goal=3,
            note=f"{of('markdown_streamed_ms'):.0f} ms to {of('markdown_render_ms'):.0f} ms",
        ),
        Answer(
            row="18a",
            figure="decoder, one event a read",
            unit="× httpx-sse",
            value=of("decoder_single_ratio"),
            bar=1.5,
            goal=1.0,
            note=f"{of('decoder_single_us'):.2f} µs to {of('httpx_sse_single_us'):.2f} µs",
        ),
        Answer(
            row="18b",
            figure="decoder, reads of 4 KiB",
            unit="× httpx-sse",
            value=of("decoder_ratio"),
            bar=1.5,
            goal=1.0,
            note=f"{of('decoder_us'):.2f} µs to {of('httpx_sse_us'):.2f} µs",
        ),
    ]
