"""The executors of calls, by the kind of the tool.

A kind registers its executor when the process starts (`chat.apps`). Executors are called in runners only, each
call in a task of its own, which is cancelled when the call is stopped or its time is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from chat.events import Json, JsonObject
from chat.models import ToolKind
from chat.upstreams.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a call goes: read from the rows at the moment of the call. ``headers`` are credentials."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"
    # The tool's name at its server.
    name: str = ""
    # The names of the arguments that may be sent; ``None``: all.
    arguments: Collection[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """One call that may be made. ``report`` takes the progress that the server tells; ``sent`` must be awaited
    before the first byte of the call itself is sent, and stores that it may have run from then on."""

    kind: ToolKind
    address: Address
    arguments: JsonObject
    most_bytes: int
    client: Client
    sent: Callable[[], Awaitable[None]]
    report: Callable[[JsonObject], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """Bytes that a tool returned: a picture, audio, or an embedded resource."""

    media_type: str
    content: bytes
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutput:
    """The result of a call. ``text`` is what the model is told; ``is_error``: the tool says that it failed."""

    text: str
    is_error: bool = False
    structured: Json = None
    files: Sequence[OutputFile] = ()
    request_bytes: int = 0
    response_bytes: int = 0


class CallFailed(Exception):
    """A call without an output. Its text is a sentence for people; ``may_have_run``: it was sent, and nobody
    knows what it has done. ``is_unauthorized``: the server wants another credential (401), and has run nothing."""

    def __init__(
        self, sentence: str, *, may_have_run: bool = False, is_unauthorized: bool = False
    ) -> None:
        super().__init__(sentence)
        self.may_have_run = may_have_run
        self.is_unauthorized = is_unauthorized


class NeedsSignIn(Exception):
    """A call that waits until its executor has signed in at the server. It has not run; the text is a sentence for
    people."""


Executor = Callable[[CallRequest], Awaitable[CallOutput]]

_executors: dict[str, Executor] = {}


def use_executors(executors: Mapping[ToolKind, Executor]) -> None:
    """Sets the executors of this process. `chat.apps` calls it once."""
    _executors.clear()
    _executors.update({kind.value: executor for kind, executor in executors.items()})


def executor_of(kind: str) -> Executor | None:
    return _executors.get(kind)
