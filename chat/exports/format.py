"""The JSON form of a conversation, version 1, and the source of `docs/export-format.schema.json`.
`docs/export-format.md` describes it.

References are public ids within the file; people are named by their email address, servers and
tools by their name, bytes by their SHA-256. Lists are in the order in which their records were
created, or in that of their numbers, so the same conversation always gives the same bytes.

A member with the name of its column is exported and imported without further code. Its type decides
what an import doesn't trust: `Time`, `Person`, `Title`, or the UUID of another record.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from chat.events import JsonObject

NAME = "tributary.conversation"
VERSION = 1

# The limits are those of the columns, so the schema says what an import accepts.
Time: TypeAlias = Annotated[datetime, Meta(tz=True)]
Place: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Figure: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Word: TypeAlias = Annotated[str, Meta(max_length=20)]
MediaType: TypeAlias = Annotated[str, Meta(max_length=100)]
Name: TypeAlias = Annotated[str, Meta(max_length=200)]
# A line in lists. An import removes its hidden characters, which could imitate another title.
Title: TypeAlias = Annotated[str, Meta(max_length=200, extra={"is_title": True})]
Heading: TypeAlias = Annotated[str, Meta(max_length=300)]
Pages: TypeAlias = Annotated[str, Meta(max_length=200, pattern="^[0-9, -]*$")]
FilePath: TypeAlias = Annotated[str, Meta(max_length=500)]
Digest: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Person(Struct, kw_only=True):
    """Somebody with an account. ``null`` in place of a person: the account was deleted, or nobody.

    Without ``email``, the name is that of a file from which the conversation was imported, and
    refers to nobody of the installation.
    """

    name: str
    email: str | None


class Tool(Struct, kw_only=True):
    """A tool of the team that is enabled in the conversation."""

    name: str
    description: str
    schema: JsonObject


class Participant(Struct, kw_only=True):
    """A person, or a group by its name, with whom the conversation was shared."""

    person: Person | None
    group: Name | None
    role: Literal["reader", "writer", "manager"]


class Change(Struct, kw_only=True):
    """A change of the conversation and who made it. ``person`` is the one whom it is about, ``name`` a title
    or the name of a group; ``turn`` was the last turn at that time."""

    kind: Word
    actor: Person | None
    person: Person | None
    name: Name
    role: Annotated[str, Meta(max_length=10)]
    at: Time
    turn: UUID | None


class Conversation(Struct, kw_only=True):
    """The conversation itself. ``server``, ``model`` and ``parameters`` are the composer's choices
    for the next message.

    ``shared_role`` is what everyone on the team may do where ``visibility`` is ``team``.
    ``participants`` is empty in an export by somebody who doesn't manage the conversation.
    ``project`` is the name of its project, for a person who reads the project. ``archived_at`` is
    ``null`` unless it is in the archive. ``preset`` is the name of the preset that it uses, for a person who may choose
    that, and ``skills`` are the names of those that are switched on and that the person may use; an import leaves both
    out. ``changes`` are for reading: an import leaves them out. ``visible_turn`` is the last turn of the branch that the
    person who exported it saw.
    """

    id: UUID
    title: Title
    team: str
    owner: Person
    visibility: Literal["private", "team", "project"]
    shared_role: Literal["reader", "writer"] = "writer"
    participants: list[Participant] = []
    project: str | None = None
    system_prompt: str
    server: str | None
    model: Name
    parameters: JsonObject
    tools: list[Tool]
    preset: str | None = None
    skills: list[str] = []
    created_at: Time
    updated_at: Time
    archived_at: Time | None = None
    visible_turn: UUID | None
    changes: list[Change] = []


class Attempt(Struct, kw_only=True):
    """One attempt to reach the server."""

    number: Place
    started_at: Time
    outcome: Word
    error_kind: Word
    error_message: str
    retry_after_seconds: float | None


class AnswerFile(Struct, kw_only=True):
    """A file that the answer contained as bytes, with its item and its number among the item's
    media."""

    choice: Place
    item: Place
    position: Place
    file: UUID
    transcript: str


class ToolCall(Struct, kw_only=True):
    """How Tributary ran a call, or why it didn't. ``arguments`` are what was sent; the model asked for those in the
    question's ``body``. ``server_name``, ``rule`` and ``definition_digest`` are empty for people who don't see
    settings."""

    status: Literal[
        "approval", "queued", "running", "input", "done", "failed", "refused", "unknown"
    ]
    kind: Word
    server_name: Name
    rule: Word
    definition_digest: Name
    arguments: JsonObject
    approved_by: Person | None
    approved_at: Time | None
    queued_at: Time | None
    sent_at: Time | None
    finished_at: Time | None
    attempt: Place
    request_bytes: Figure
    response_bytes: Figure
    error: str


class Question(Struct, kw_only=True):
    """A question for which the run waited. ``answer`` of a tool call is without its ``output``: the
    result is in ``inputs`` of the next run if it was given to the model, and private if not."""

    id: UUID
    kind: Literal["ask", "approval", "tool"]
    position: Place
    ask_id: Name
    body: JsonObject
    status: Literal["open", "claimed", "answered", "declined", "expired"]
    claimed_by: Person | None
    claimed_at: Time | None
    answered_by: Person | None
    answered_at: Time | None
    answer: JsonObject
    created_at: Time
    # The call of a tool that Tributary runs. An import leaves it out: it can't vouch for approvals.
    tool_call: ToolCall | None = None


class Run(Struct, kw_only=True):
    """One request to a server. An answer that was continued has several.

    ``events`` is the log, each event as it was stored; ``result`` the final result. Both are
    without data that only the server itself can use (signatures, encrypted reasoning).
    ``instructions`` are those of the project, sent before ``system_prompt``; empty for a person who
    doesn't read the project.
    """

    id: UUID
    status: Literal[
        "queued",
        "running",
        "completed",
        "waiting",
        "incomplete",
        "stopped",
        "failed",
        "cut",
        "interrupted",
    ]
    server: str | None
    dialect: Annotated[str, Meta(max_length=40)]
    model: Name
    # The model's name in the server's list, else its id.
    model_label: str
    instructions: str = ""
    system_prompt: str
    parameters: JsonObject
    tools: list[JsonObject]
    inputs: list[JsonObject]
    requested_by: Person | None
    stop_requested_by: Person | None
    stop_requested_at: Time | None
    queued_at: Time
    claimed_at: Time | None
    request_sent_at: Time | None
    first_event_at: Time | None
    first_token_at: Time | None
    finished_at: Time | None
    input_tokens: Figure | None
    output_tokens: Figure | None
    reasoning_tokens: Figure | None
    error_kind: Word
    error_message: str
    notes: list[str]
    attempts: list[Attempt]
    questions: list[Question]
    files: list[AnswerFile]
    result: JsonObject | None
    events: list[JsonObject]


class Document(Struct, kw_only=True):
    """The content that was sent of a document that a person attached: ``text``, or all of the file to a server that reads such
    files itself. ``pages`` are those that were chosen; empty for all. With the ``use`` ``tools`` the model read it with
    tools instead. Without ``text`` nobody has read the file."""

    file: UUID
    pages: Pages
    use: Literal["content", "tools"]
    text: str | None


class ContextStart(Struct, kw_only=True):
    """A choice that nothing above the turn is sent for answers below it: what is above was left out (``dropped``), or is
    replaced by the summary that the turn asks for. ``whole`` takes back earlier choices. Of several choices on the way
    to an answer, the one with the highest ``number`` is in effect."""

    kind: Literal["dropped", "summary", "whole"]
    number: Place
    person: Person | None
    created_at: Time


class Turn(Struct, kw_only=True):
    """A message of a person, or an answer. Turns with the same parent are versions of each other."""

    id: UUID
    parent: UUID | None
    role: Literal["user", "assistant"]
    author: Person | None
    text: str
    created_at: Time
    # Files that a person attached, in order.
    attachments: list[UUID]
    # The content that was sent of the files that are documents.
    documents: list[Document] = []
    context_start: ContextStart | None = None
    # An answer of one of several models that were compared: nobody has chosen among them yet, or this one was chosen,
    # or another one.
    compared: Literal["open", "chosen", "other"] | None = None
    runs: list[Run]


class ArtifactVersion(Struct, kw_only=True):
    """``run`` and ``seq`` name the event that made it."""

    number: Place
    run: UUID
    seq: Figure
    identifier: Name
    title: Heading
    language: Annotated[str, Meta(max_length=60)]
    content_type: MediaType
    content: str
    created_at: Time


class Artifact(Struct, kw_only=True):
    id: UUID
    artifact_id: Name
    created_at: Time
    versions: list[ArtifactVersion]


class MockupFile(Struct, kw_only=True):
    """``file`` is null where the file was not downloaded; ``reason`` may say why."""

    path: FilePath
    content_type: MediaType
    announced_bytes: Figure
    status: Literal["wanted", "stored", "refused"]
    file: UUID | None
    reason: Heading


class MockupVersion(Struct, kw_only=True):
    """``run`` and ``seq`` name the event that made it."""

    number: Place
    run: UUID
    seq: Figure
    identifier: Name
    title: Heading
    entry: FilePath
    changed: list[str]
    deleted: list[str]
    created_at: Time
    files: list[MockupFile]


class Mockup(Struct, kw_only=True):
    id: UUID
    bundle_id: Name
    server: str | None
    created_at: Time
    versions: list[MockupVersion]


class File(Struct, kw_only=True):
    """A file of the conversation. Its bytes are in ``contents`` under ``sha256``, unless they were deleted."""

    id: UUID
    name: Annotated[str, Meta(max_length=255)]
    media_type: MediaType
    size_bytes: Figure
    sha256: Digest
    created_by: Person | None
    created_at: Time
    deleted_at: Time | None = None


class Comment(Struct, kw_only=True):
    """A note on a turn, or on the passage ``quote`` of its text, between ``prefix`` and ``suffix``. A reply names
    the comment that began its ``thread``. One that was deleted and has replies is without its text."""

    id: UUID
    turn: UUID
    thread: UUID | None
    author: Person | None
    text: str
    quote: str
    prefix: str
    suffix: str
    created_at: Time
    edited_at: Time | None
    resolved_at: Time | None
    resolved_by: Person | None


class Feedback(Struct, kw_only=True):
    """The judgment of a person about an answer. A ``rating`` is good (1) or bad (-1), with the codes of its reasons and a
    note. A ``choice`` between compared answers is 1 for the chosen one and -1 for the others. An import leaves it out."""

    turn: UUID
    person: Person | None
    kind: Literal["rating", "choice"]
    value: Literal[1, -1]
    reasons: list[str]
    note: str
    created_at: Time
    updated_at: Time


class Export(Struct, kw_only=True):
    """A conversation with all its branches. ``contents`` has the bytes of the files as Base64, each
    once, under their SHA-256; null in a file that was written without them."""

    format: Literal["tributary.conversation"]
    version: Literal[1]
    conversation: Conversation
    turns: list[Turn]
    artifacts: list[Artifact]
    mockups: list[Mockup]
    files: list[File]
    comments: list[Comment] = []
    feedback: list[Feedback] = []
    contents: dict[str, str] | None


@cache
def titles_of(kind: type[Struct]) -> frozenset[str]:
    """The names of the members that are a `Title`."""
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(name for name, hint in hints.items() if Title in (hint, *get_args(hint)))


def schema() -> dict[str, Any]:
    """The JSON Schema of `Export`; ``python -m chat.exports.format`` prints it."""
    found = msgspec.json.schema(Export)
    for struct in found["$defs"].values():
        # Docstrings are wrapped and indented for the code.
        struct["description"] = " ".join(struct.get("description", "").split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
