"""Functions of Tributary itself among the tools of a run: a feature gives their results. Pure functions."""

from __future__ import annotations

from collections.abc import Collection

from chat.events import JsonObject

FILES, SKILLS = "files", "skills"


class FunctionRefused(Exception):
    """The text says to the model what is wrong with its call."""


def feature_of(tool: JsonObject) -> str:
    """The feature that gives the results of a tool of a run (``Run.tools``); empty for a tool of the team."""
    # Runs of earlier versions have a mark for the only feature that there was.
    feature = tool.get("feature") or (FILES if tool.get("is_for_files") else "")
    return str(feature) if feature in (FILES, SKILLS) else ""


def name_for(function: str, functions: Collection[str], taken: Collection[str], prefix: str) -> str:
    """The name under which a model gets one of a feature's functions: the conversation may have a tool with the name of
    one of them, and then all have the prefix."""
    is_taken = any(name in taken for name in functions)
    return f"{prefix}{function}" if is_taken else function
