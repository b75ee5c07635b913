"""Suggestions for a first message, by what the chosen model can do."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, urlencode
from uuid import UUID

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.conversations.choice_form import ChoiceForm
from chat.dialects import DIALECTS
from chat.models import Upstream


@dataclass(frozen=True, slots=True)
class Starter:
    icon: str
    # Empty where the text says it all.
    title: str | Promise
    text: str | Promise
    # The server whose first model the suggestion is for, if it isn't the chosen one.
    server: UUID | None = None

    @property
    def query(self) -> str:
        """The query of the page that begins with the suggestion."""
        server = {"server": str(self.server)} if self.server else {}
        return urlencode({**server, "draft": str(self.text)}, quote_via=quote)


def _starter(table: Mapping[str, str]) -> Starter:
    text = gettext_lazy(table["text"]) if "text" in table else table["prompt"]
    return Starter(table["icon"], gettext_lazy(table["title"]), text)


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
# Suggestions for the demo servers, and for all other models.
DEMO_STARTERS = tuple(map(_starter, _TABLES["demo"]))
STARTERS = tuple(map(_starter, _TABLES["any"]))
# The demo suggestion that has another form where tools can run.
TOOL_STARTER = _starter(_TABLES["tools"])


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterList:
    """Suggestions for some models; the page shows the list that fits the chosen one."""

    kind: str
    starters: tuple[Starter, ...]
    is_shown: bool


def starter_lists(
    form: ChoiceForm, *, has_demo_tools: bool = False, of_preset: Sequence[str] = ()
) -> list[StarterList]:
    """``has_demo_tools``: a new conversation may use the tools of the demo's server. ``of_preset``: the suggestions of
    the chosen preset, in place of the others."""
    is_demo = bool(form.chosen and form.chosen.is_demo)
    starters = _with_tools(form) if has_demo_tools else DEMO_STARTERS
    has_own = bool(of_preset)
    return [
        StarterList(kind="demo", starters=starters, is_shown=is_demo and not has_own),
        StarterList(kind="any", starters=STARTERS, is_shown=not is_demo and not has_own),
        preset_starters(of_preset),
    ]


def preset_starters(texts: Sequence[str]) -> StarterList:
    starters = tuple(Starter("message-square", "", text) for text in texts)
    return StarterList(kind="preset", starters=starters, is_shown=bool(texts))


def _with_tools(form: ChoiceForm) -> tuple[Starter, ...]:
    """The suggestions of which one calls a tool, with a model that can."""
    able = [each for each in form.upstreams if each.is_demo and takes_tools(each)]
    if not able:
        return DEMO_STARTERS
    is_chosen = form.chosen in able
    own = replace(TOOL_STARTER, server=None if is_chosen else able[0].public_id)
    return tuple(own if each.title == own.title else each for each in DEMO_STARTERS)


def takes_tools(upstream: Upstream) -> bool:
    dialect = DIALECTS.get(upstream.dialect)
    return dialect is not None and dialect.takes_tools


def demo_starters(form: ChoiceForm) -> StarterList | None:
    """The suggestions for a demo model, where one is chosen."""
    demo, *_ = starter_lists(form)
    return demo if demo.is_shown else None


def has_own_beside_demos(form: ChoiceForm) -> bool:
    """True if a model of another server is chosen while demo servers are offered."""
    is_own = form.chosen is not None and not form.chosen.is_demo
    return is_own and any(each.is_demo for each in form.upstreams)
