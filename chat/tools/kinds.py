"""The executors of calls, by the kind of the tool.

A kind registers its executor when the process starts (`chat.apps`). Executors are called in runners only, each
call in a task of its own, which is cancelled when the call is stopped or its time is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from chat.events import Citation, Json, JsonObject
from chat.models import InputSource, ToolKind
from chat.upstreams.client import Client

# Bytes of a message that a receipt shows: as much as a page shows of one text.
RECORDED_BYTES = 32_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a call goes: read from the rows at the moment of the call. ``headers`` are credentials."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"
    # The tool's name at its server, and the schema of its arguments that people have seen.
    name: str = ""
    schema: JsonObject = field(default_factory=dict)
    # The service of a web search (`SearchService`).
    service: str = ""
    # The names of the arguments that may be sent; ``None``: all.
    arguments: Collection[str] | None = None
    # The key of the run whose attached files are read.
    run: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A message to a server and the response, as text, without credentials and cut at ``RECORDED_BYTES`` each."""

    sent: str = field(default="", repr=False)
    received: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedInput:
    """A request of a tool to people in the middle of a call: a form, or to open an address. ``key`` is the server's own
    name of it."""

    key: str = ""
    message: str = ""
    schema: JsonObject = field(default_factory=dict)
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReply:
    """The answer. ``content`` are the values of an accepted form."""

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject = field(default_factory=dict)
    is_form: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InputNeeded:
    """A call that can't go on without people. ``state`` is the server's, and goes back to it with the replies."""

    asked: Sequence[AskedInput]
    source: InputSource
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The state that an earlier request of the same call has left. ``task`` is the id of the task that does the call: it is
    followed, and no call is made. ``known`` are the keys of what the task has asked so far."""

    state: str | None = None
    replies: Mapping[str, InputReply] = field(default_factory=dict)
    task: str = ""
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """One call that may be made, or continued. ``report`` takes the progress that the server tells; ``sent`` must be
    awaited before the first byte of the call itself is sent, and stores that it may have run from then on.
    ``store_task`` must be awaited before anything else is done with a task, and returns whether the call goes on;
    ``ask`` waits for the answer of a person, while the call is open. ``heard`` is told whether the server has answered
    the last question about a task: the state of one is unknown as long as it hasn't. ``list_changed`` is called when
    the server tells that its list of tools has changed. ``traceparent`` is the trace context (W3C) that goes with each
    message of the call. ``renew`` gives the headers of a new token after the server has refused that of an account; it
    raises ``NeedsSignIn``, or ``CallFailed`` if there is none right now. ``record`` takes each exchange of messages that
    belongs to the call itself."""

    kind: ToolKind
    address: Address
    arguments: JsonObject
    most_bytes: int
    client: Client
    sent: Callable[[], Awaitable[None]]
    report: Callable[[JsonObject], None]
    store_task: Callable[[str], Awaitable[bool]]
    ask: Callable[[AskedInput], Awaitable[InputReply]]
    continuation: Continuation = Continuation()
    heard: Callable[[bool], None] = lambda has_answered: None
    list_changed: Callable[[], None] = lambda: None
    traceparent: str = ""
    renew: Callable[[], Awaitable[Mapping[str, str]]] | None = None
    record: Callable[[Recording], None] = lambda recording: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """A task that nobody waits for any more. ``account``: the one whose token its server wants."""

    call: int
    kind: ToolKind
    address: Address = field(repr=False)
    task: str = field(repr=False)
    account: int | None = None


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
    # Sources of the text with which the answer goes on.
    sources: Sequence[Citation] = ()
    request_bytes: int = 0
    response_bytes: int = 0


class CallFailed(Exception):
    """A call without an output. Its text is a sentence for people; ``may_have_run``: it was sent, and nobody
    knows what it has done. ``is_unauthorized``: the server wants another credential (401), and has run nothing.
    ``missing_scopes``: the server wants these of the account in addition (403), and has done nothing.
    ``leaves_task``: its task may have its result, and must not be canceled."""

    def __init__(
        self,
        sentence: str,
        *,
        may_have_run: bool = False,
        is_unauthorized: bool = False,
        leaves_task: bool = False,
        missing_scopes: Sequence[str] = (),
    ) -> None:
        super().__init__(sentence)
        self.may_have_run = may_have_run
        self.is_unauthorized = is_unauthorized
        self.leaves_task = leaves_task
        self.missing_scopes = missing_scopes


class NeedsSignIn(Exception):
    """A call that waits until its executor has signed in at the server, with ``scopes`` in addition if there are any. It
    has not run; the text is a sentence for people."""

    def __init__(self, sentence: str, *, scopes: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.scopes = scopes


Executor = Callable[[CallRequest], Awaitable[CallOutput | InputNeeded]]
# Tells the server; whether it does anything about it is its own decision.
Canceler = Callable[[Client, Cancellation], Awaitable[None]]

_executors: dict[str, Executor] = {}
_cancelers: dict[str, Canceler] = {}


def use_executors(
    executors: Mapping[ToolKind, Executor], cancelers: Mapping[ToolKind, Canceler]
) -> None:
    """Sets the executors of this process, and what cancels their tasks. `chat.apps` calls it once."""
    _executors.clear()
    _executors.update({kind.value: executor for kind, executor in executors.items()})
    _cancelers.clear()
    _cancelers.update({kind.value: canceler for kind, canceler in cancelers.items()})


def executor_of(kind: str) -> Executor | None:
    return _executors.get(kind)


def canceler_of(kind: str) -> Canceler | None:
    return _cancelers.get(kind)
