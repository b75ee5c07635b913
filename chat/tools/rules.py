"""The decision about a call that Tributary would run: run it, ask people, or refuse."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chat.models import ToolRule


class Verdict(StrEnum):
    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A call without an approval. ``is_private``: nobody but the person it runs for reads the
    conversation. ``choice``: whether somebody decided "always" or "never" for this conversation, and is
    still entitled to. ``is_entitled``: the person it runs for may write in the conversation; if it uses that person's
    account, they also asked for the answer themselves."""

    rule: str
    is_private: bool
    is_entitled: bool
    is_read_only: bool = False
    is_destructive: bool = False
    choice: bool | None = None


def decide(call: Situation) -> Verdict:
    """A choice narrows the rule and never widens it: "always" stands for the approval that the rule
    asks for, except for a destructive tool, and never for a tool that is off."""
    if call.rule == ToolRule.OFF or call.choice is False:
        return Verdict.REFUSE
    if not call.is_entitled:
        return Verdict.ASK
    if call.rule == ToolRule.AUTO:
        return Verdict.RUN
    if call.rule == ToolRule.AUTO_PRIVATE and call.is_private:
        return Verdict.RUN
    return Verdict.RUN if call.choice and not call.is_destructive else Verdict.ASK
