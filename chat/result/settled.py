"""The decisions about the calls and questions that an answer waited for."""

from typing import Literal

import msgspec

from chat.events import Citation, ToolExecution

Kind = Literal["tool", "ask", "approval"]
Outcome = Literal["answered", "declined", "not_run"]


class Settled(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One entry of ``Run.inputs``: the outcome of something that the run before waited for.

    ``position`` is that of a call in the run's output, and of a question in ``ext.asks``. The calls
    come first, each kind in its order. ``by`` is the name of the person who decided.
    """

    kind: Kind
    position: int
    outcome: Outcome
    by: str = ""
    # Calls: the text that the model is told.
    output: str = ""
    is_error: bool = False
    # How Tributary ran the call; none if a person gave the result.
    execution: ToolExecution | None = None
    # Sources that the call found, for the text that follows.
    sources: tuple[Citation, ...] = ()
    # Questions; for an approval ``text`` is the reason.
    text: str = ""
    selected: tuple[str, ...] = ()
    fields: dict[str, str] = {}
