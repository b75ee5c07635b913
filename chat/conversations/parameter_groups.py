"""How the parameters of an API type are arranged: the common ones first, the others by topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.forms.boundfield import BoundField
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

# The first four of these that an API type has stand above the others.
COMMON = (
    "temperature", "max_tokens", "max_output_tokens", "reasoning_effort", "effort", "reasoning",
    "top_p", "thinking", "top_k",
)  # fmt: skip
COMMON_COUNT = 4

# A parameter that is in none of these is in the last group.
TOPICS: tuple[tuple[str | Promise, frozenset[str]], ...] = (
    (gettext_lazy("Mode and server tools"), frozenset({
        "mode", "x_web_search", "search_context_size", "x_fetch_url", "x_inspect_site",
        "x_code_search", "x_repo_overview", "x_repo_read", "x_calculator", "max_tool_calls",
    })),
    (gettext_lazy("Reasoning"), frozenset({
        "thinking", "thinking_budget", "thinking_display", "effort", "reasoning_budget",
        "reasoning_history", "reasoning_summary", "reasoning_effort",
    })),
    (gettext_lazy("Sampling"), frozenset({
        "seed", "top_k", "min_p", "typical_p", "frequency_penalty", "presence_penalty",
        "repetition_penalty", "repeat_penalty", "mirostat_target", "mirostat_lr",
    })),
    (gettext_lazy("Output"), frozenset({
        "verbosity", "stop", "stop_sequences", "n", "min_tokens", "response_format",
        "response_schema", "text_format", "logprobs", "top_logprobs",
    })),
    (gettext_lazy("Tool calls"), frozenset({
        "tool_choice", "tool_name", "parallel_tool_calls", "parallel_tools",
    })),
)  # fmt: skip
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
