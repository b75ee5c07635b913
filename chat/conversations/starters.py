"""Suggestions for a first message, by what the chosen model can do."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.conversations.choice_form import ChoiceForm


@dataclass(frozen=True, slots=True)
class Starter:
    icon: str
    title: str | Promise
    text: str | Promise


def _starter(table: Mapping[str, str]) -> Starter:
    text = gettext_lazy(table["text"]) if "text" in table else table["prompt"]
    return Starter(table["icon"], gettext_lazy(table["title"]), text)


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
# Suggestions for the demo servers, and for all other models.
DEMO_STARTERS = tuple(map(_starter, _TABLES["demo"]))
STARTERS = tuple(map(_starter, _TABLES["any"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterList:
    """Suggestions for some models; the page shows the list that fits the chosen one."""

    kind: str
    starters: tuple[Starter, ...]
    is_shown: bool


def starter_lists(form: ChoiceForm) -> list[StarterList]:
    is_demo = bool(form.chosen and form.chosen.is_demo)
    return [
        StarterList(kind="demo", starters=DEMO_STARTERS, is_shown=is_demo),
        StarterList(kind="any", starters=STARTERS, is_shown=not is_demo),
    ]


def demo_starters(form: ChoiceForm) -> StarterList | None:
    """The suggestions for a demo model, where one is chosen."""
    demo, _ = starter_lists(form)
    return demo if demo.is_shown else None


def has_own_beside_demos(form: ChoiceForm) -> bool:
    """True if a model of another server is chosen while demo servers are offered."""
    is_own = form.chosen is not None and not form.chosen.is_demo
    return is_own and any(each.is_demo for each in form.upstreams)
