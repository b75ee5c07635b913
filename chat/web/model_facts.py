"""Facts that a server's list tells about a model, in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_lazy

from chat.models.upstream import context_tokens_of, inputs_of

_INPUTS = {
    "image": gettext_lazy("images"),
    "audio": gettext_lazy("audio"),
    "video": gettext_lazy("video"),
    "file": gettext_lazy("files"),
}


def short_facts(entry: Mapping[str, Any]) -> str:
    """The inputs of a model besides text, whether it reasons, its context, and whether it is loaded."""
    facts = [str(_INPUTS[name]) for name in inputs_of(entry)]
    detail = entry.get("detail")
    if isinstance(detail, dict):
        capabilities = detail.get("capabilities")
        # LM Studio has an object of the possible settings, others true.
        if isinstance(capabilities, dict) and capabilities.get("reasoning"):
            facts.append(gettext("reasoning"))
        if context := context_in_words(detail):
            facts.append(context)
        if is_loaded(detail):
            facts.append(gettext("loaded"))
    return ", ".join(facts)


def is_loaded(detail: Mapping[str, Any]) -> bool:
    """Returns whether LM Studio had the model in memory when its list was read."""
    return bool(detail.get("loaded_instances")) or detail.get("state") == "loaded"


def context_in_words(detail: Mapping[str, Any]) -> str:
    context = context_tokens_of({"detail": detail})
    return gettext("%(size)s context") % {"size": tokens_in_words(context)} if context else ""


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def tokens_in_words(count: int) -> str:
    """A number of tokens as vendors write it: 32768 is 32K, 128000 is 128K, 1048576 is 1M. ``tokens`` of
    static/base/i18n.js does the same."""
    unit = 1024 if count % 1000 and count % 1024 == 0 else 1000
    letter, size = next(
        (each for each in (("M", unit**2), ("K", unit)) if count >= each[1]), ("", 1)
    )
    rounded = float(f"{count / size:.3g}")
    return f"{number_format(int(rounded) if rounded.is_integer() else rounded)}{letter}"
