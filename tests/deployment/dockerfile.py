"""Reads a Dockerfile that has one instruction on each line, stages, and no heredocs."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Step:
    word: str
    text: str

    @property
    def list(self) -> list[str]:
        """The words of the form in brackets, as for CMD."""
        return list(json.loads(self.text))


@dataclass
class Stage:
    base: str
    name: str
    steps: list[Step] = field(default_factory=list)

    def all(self, word: str) -> list[Step]:
        return [step for step in self.steps if step.word == word]

    def one(self, word: str) -> Step:
        (step,) = self.all(word)
        return step

    @property
    def environment(self) -> dict[str, str]:
        return dict(step.text.split("=", 1) for step in self.all("ENV"))


def read(path: Path = ROOT / "Dockerfile") -> list[Stage]:
    """The stages, with the build arguments' defaults filled in."""
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, text = line.partition(" ")
        if word == "ARG":
            name, _, value = text.partition("=")
            arguments[name] = value
        elif word == "FROM":
            base, _, name = text.partition(" AS ")
            for argument, value in arguments.items():
                base = base.replace(f"${{{argument}}}", value)
            stages.append(Stage(base=base, name=name))
        else:
            stages[-1].steps.append(Step(word, text))
    return stages


def copied(step: Step) -> tuple[list[str], str, str]:
    """Sources, destination, and the stage of the sources (empty for the source tree)."""
    words = shlex.split(step.text)
    stage = next((word.removeprefix("--from=") for word in words if word.startswith("--from=")), "")
    paths = [word for word in words if not word.startswith("--")]
    return paths[:-1], paths[-1], stage
