"""Style sheets as lists of rules, nested ones included."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

STATIC = Path(settings.BASE_DIR) / "static"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    sheet: str
    # Selectors and at-rules, from the outermost one on.
    path: tuple[str, ...]
    declarations: frozenset[str]

    def __str__(self) -> str:
        return f"{self.sheet}: {' '.join(self.path)}"


def own_sheets() -> list[Path]:
    return sorted(path for path in STATIC.rglob("*.css") if STATIC / "vendor" not in path.parents)


def rules_of(sheet: Path) -> list[Rule]:
    """All rules that have declarations of their own."""
    name = str(sheet.relative_to(STATIC))
    found: list[Rule] = []
    path: list[str] = []
    declarations: list[list[str]] = [[]]
    for part in re.findall(r"[^{};]+|[{};]", COMMENT.sub("", sheet.read_text())):
        words = " ".join(part.split())
        if part == "{":
            path.append(declarations[-1].pop())
            declarations.append([])
        elif part == "}":
            if own := declarations.pop():
                found.append(Rule(name, tuple(path), frozenset(own)))
            path.pop()
        elif part != ";" and words:
            declarations[-1].append(words)
    assert path == [], f"{name} does not close what it opens"
    return found
