"""How the parameters of an API type are arranged: the common ones first, the others by topic."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.forms.boundfield import BoundField
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
# The first `COMMON_COUNT` of these that an API type has stand above the others.
COMMON: Sequence[str] = _TABLES["common"]
COMMON_COUNT = 4
# A parameter that is in none of these is in the last group.
TOPICS = [(gettext_lazy(each["title"]), frozenset(each["members"])) for each in _TABLES["topics"]]
OTHER = gettext_lazy("Context and service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Parameters about one thing."""

    title: str | Promise
    fields: Sequence[BoundField]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterGroups:
    """The parameters of one API type."""

    dialect: str
    common: Sequence[BoundField]
    topics: Sequence[Topic]

    @property
    def is_adjusted(self) -> bool:
        return any(_has_value(bound) for bound in self.common) or self.is_advanced_adjusted

    @property
    def is_advanced_adjusted(self) -> bool:
        return any(_has_value(bound) for topic in self.topics for bound in topic.fields)


def _has_value(bound: BoundField) -> bool:
    return bound.value() not in (None, "")


def grouped(dialect: str, fields: Iterable[tuple[str, BoundField]]) -> ParameterGroups:
    """``fields`` are the names of the parameters with their fields, in their order."""
    rest = dict(fields)
    names = [name for name in COMMON if name in rest][:COMMON_COUNT]
    common = [rest.pop(name) for name in names]
    topics: list[Topic] = []
    for title, members in TOPICS:
        inside = [rest.pop(name) for name in list(rest) if name in members]
        if inside:
            topics.append(Topic(title=title, fields=inside))
    if rest:
        topics.append(Topic(title=OTHER, fields=list(rest.values())))
    return ParameterGroups(dialect=dialect, common=common, topics=topics)
