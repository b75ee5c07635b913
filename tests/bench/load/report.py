"""The tables: printed, and written into docs/performance.md between its marks."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from tests.bench.load.arithmetic import median
from tests.bench.load.rows import UNDISTURBED_MS, Answer, Figures, answers
from tests.bench.load.run import Outcome

DOCUMENT = Path(__file__).resolve().parent.parent.parent.parent / "docs" / "performance.md"
TITLES = {
    "direct": "direct",
    "nginx": "nginx",
    "passthrough": "Starlette + httpx",
    "external": "Tributary: runner, web, PostgreSQL, Redis",
    "embedded": "Tributary, embedded on SQLite",
}
SCENARIOS = {
    "n1": "1 stream",
    "n50": "50 streams",
    "n200": "200 streams",
    "n500": "500 streams",
    "n200-markdown": "200 streams of Markdown",
    "n200-paragraph": "200 streams of one paragraph",
    "unpaced": "50 streams, unpaced",
    "quiet": "1 stream, 4 deltas a second",
    "openings": "one stream after another",
    "n200-500": "200 streams of 500 deltas",
    "openings-15": "15 openings a second",
    "openings-50": "50 openings a second",
}
ORIENTATION = (
    "3: another product in the same run is orientation, not duty; none is installed here.",
)


def text(outcome: Outcome) -> str:
    """Everything, for a terminal."""
    figures = Figures(outcome)
    parts = [
        f"Load: {outcome.rounds} interleaved rounds, {outcome.seconds / 60:.1f} minutes, {outcome.machine}",
        _columns(_row_table(answers(outcome))),
        *ORIENTATION,
        _disturbance(figures),
    ]
    for scenario, title in SCENARIOS.items():
        if table := _target_table(figures, scenario):
            parts.append(f"{title}\n{_columns(table)}")
    if table := _kind_table(figures):
        parts.append(
            f"CPU by process, ms per 1,000 deltas, {figures.main[1:]} streams\n{_columns(table)}"
        )
    parts += [f"{name} was left out: {why}" for name, why in outcome.missing.items()]
    return "\n\n".join(part for part in parts if part)


def _disturbance(figures: Figures) -> str:
    if math.isnan(figures.nginx_ms):
        return "nginx was not measured: no bar can be judged."
    if not figures.is_disturbed:
        return ""
    least, most = UNDISTURBED_MS
    return (
        f"The machine was disturbed: nginx took {figures.nginx_ms:.1f} ms per 1,000 deltas, "
        f"{least:.0f} to {most:.0f} are usual, and others used {figures.other_cores:.2f} cores. "
        "A bar that was missed is to be measured again."
    )


# --- tables: a list of rows of cells, the first row is the head ---------------------------------


def _row_table(found: Sequence[Answer]) -> list[list[str]]:
    head = ["#", "figure", "bar", "goal", "measured", "", "", "verdict"]
    rows = []
    for one in found:
        sign = "≥" if one.is_floor else "≤"
        value = "–" if math.isnan(one.value) else _number(one.value)
        rows.append(
            [
                one.row.removesuffix("m"),
                one.figure,
                f"{sign} {_number(one.bar)}",
                f"{sign} {_number(one.goal)}",
                value,
                one.unit,
                "" if "nan" in one.note else one.note,
                one.verdict,
            ]
        )
    return [head, *rows]


def _target_table(figures: Figures, scenario: str) -> list[list[str]]:
    head = [
        "target",
        "complete",
        "first delta p50 / p95 ms",
        "latency p50 / p95 / p99 ms",
        "CPU ms per 1,000",
        "with opening",
        "cores",
        "deltas/s",
        "kB/stream",
        "idle MB",
    ]
    rows: list[list[str]] = []
    for target, title in TITLES.items():
        runs = figures.of(scenario, target)
        if not runs:
            continue
        firsts = [median(run.first_ms[place] for run in runs) for place in (0, 1)]
        latencies = [median(run.latency_ms[place] for run in runs) for place in (0, 1, 2)]
        has_cpu = target != "direct"
        rows.append(
            [
                title,
                f"{sum(run.completed for run in runs)}/{sum(run.streams for run in runs)}",
                " / ".join(map(_number, firsts)),
                " / ".join(map(_number, latencies)),
                _number(median(run.cpu_ms for run in runs)) if has_cpu else "–",
                _number(median(run.whole_cpu_ms for run in runs)) if has_cpu else "–",
                f"{median(run.cores for run in runs):.2f}" if has_cpu else "–",
                f"{median(run.deltas_per_second for run in runs):,.0f}",
                _number(median(sum(run.stream_kb.values()) for run in runs)) if has_cpu else "–",
                f"{median(sum(run.idle_kb.values()) for run in runs) / 1024:.0f}"
                if has_cpu
                else "–",
            ]
        )
    return [head, *rows] if rows else []


def _kind_table(figures: Figures) -> list[list[str]]:
    """Steady and whole CPU of each kind of process."""
    rows: list[list[str]] = []
    for target in TITLES:
        runs = figures.of(figures.main, target)
        for kind in runs[0].cpu if runs else ():
            steady = median(1e6 * run.cpu[kind] / max(1, run.window_deltas) for run in runs)
            whole = median(1e6 * run.whole_cpu[kind] / max(1, run.deltas) for run in runs)
            idle = median(run.idle_kb[kind] / 1024 for run in runs)
            memory = median(run.stream_kb[kind] for run in runs)
            rows.append([TITLES[target], kind, *map(_number, (steady, whole, memory, idle))])
    head = [
        "target",
        "process",
        "while streaming",
        "with opening and ending",
        "kB/stream",
        "idle MB",
    ]
    return [head, *rows] if rows else []


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "never"
    if value == int(value) and abs(value) < 10_000:
        return str(int(value))
    if abs(value) < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 100 else f"{value:,.0f}"


def _columns(table: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def _markdown(table: Sequence[Sequence[str]]) -> str:
    head, *rows = table
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- the document ---------------------------------------------------------------------------------


def write(outcome: Outcome, document: Path = DOCUMENT) -> None:
    """Puts the tables between the marks of the document; the words around them stay."""
    figures = Figures(outcome)
    tables = {
        "run": f"Taken {outcome.taken_at} with `{outcome.command}`: {outcome.rounds} rounds in "
        f"{outcome.seconds / 60:.0f} minutes on {outcome.machine}. {_disturbance(figures)}".strip(),
        "rows": _markdown(_row_table(answers(outcome))),
    }
    words = document.read_text()
    for name, table in tables.items():
        words = _put(words, name, table)
    document.write_text(words)


def _put(words: str, name: str, table: str) -> str:
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(words):
        raise ValueError(f"docs/performance.md has no place for {name!r}")
    return pattern.sub(lambda _: f"{begin}\n{table}\n{end}", words)
