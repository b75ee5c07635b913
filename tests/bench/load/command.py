"""``make bench BENCH="load …"``: the options of the load benchmark."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.bench.load import micro, report
from tests.bench.load.run import Outcome, run
from tests.bench.load.scenarios import FULL, QUICK, ROUNDS, chosen, lasting

USAGE = """\
The whole takes some forty-five minutes, --quick two. Nothing else should run meanwhile.
  make bench BENCH=load
  make bench BENCH="load --quick"
  make bench BENCH="load --scenario n200 --target nginx --target external --rounds 1"
  make bench BENCH="load --scenario openings-50 --seconds 20 --rounds 1"
  make bench BENCH="load --write"
"""


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    outcome = _read(options.read) if options.read else _run(options, arguments)
    print(report.text(outcome))
    if options.json:
        # Not msgspec's own writer: what was not measured is NaN, which it would write as null.
        options.json.write_text(json.dumps(msgspec.to_builtins(outcome), indent=1))
    if options.write:
        report.write(outcome)
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="load", description=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round, 50 streams")
    names = sorted({step.scenario.name for step in (*FULL, *QUICK)})
    parser.add_argument("--scenario", action="append", default=[], choices=names)
    targets = sorted({name for step in FULL for name in step.targets})
    parser.add_argument("--target", action="append", default=[], choices=targets)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, help="how long openings go on, instead of 30 or 60"
    )
    parser.add_argument("--json", type=Path, help="keep what was measured in this file")
    parser.add_argument(
        "--read",
        type=Path,
        nargs="+",
        help="measure nothing: take such files, each with more rounds",
    )
    parser.add_argument("--write", action="store_true", help="put the tables into the document")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> Outcome:
    steps = chosen(QUICK if options.quick else FULL, options.scenario, options.target)
    if options.seconds:
        steps = lasting(steps, options.seconds)
    if not steps:
        raise SystemExit("No scenario is run against these targets.")
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    said = " ".join(["load", *arguments])
    outcome = run(steps, rounds=rounds, command=f'make bench BENCH="{said}"')
    if not options.scenario:
        print("Markdown and decoder", file=sys.stderr, flush=True)
        outcome.micro = micro.figures()
    return outcome


def _read(paths: Sequence[Path]) -> Outcome:
    whole, *others = [msgspec.convert(json.loads(path.read_text()), Outcome) for path in paths]
    for other in others:
        for each in other.measured:
            each.round += whole.rounds
        whole.measured += other.measured
        whole.rounds += other.rounds
        whole.seconds += other.seconds
    return whole
