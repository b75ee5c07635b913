"""The JSON form of a conversation, version 1: what is written, what a reader gets, and the source of
`docs/export-format.schema.json`. `docs/export-format.md` describes it.

References are public ids within the file; people are named by their email address, servers and tools
by their name, bytes by their SHA-256. Lists are in the order in which their records were created, or
in that of their numbers, so the same conversation always gives the same bytes.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from chat.events import JsonObject

NAME = "tributary.conversation"
VERSION = 1

# The limits are those of the columns. With them the schema says what an import accepts.
Time: TypeAlias = Annotated[datetime, Meta(tz=True)]
Place: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Figure: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Word: TypeAlias = Annotated[str, Meta(max_length=20)]
MediaType: TypeAlias = Annotated[str, Meta(max_length=100)]
Name: TypeAlias = Annotated[str, Meta(max_length=200)]
Heading: TypeAlias = Annotated[str, Meta(max_length=300)]
FilePath: TypeAlias = Annotated[str, Meta(max_length=500)]
Digest: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Person(Struct, kw_only=True):
    """Somebody with an account. ``null`` in place of a person: the account was deleted, or nobody.

    Without ``email``: the name is that of a file from which the conversation was imported, and nobody
    of the installation is meant.
    """

    name: str
    email: str | None


class Tool(Struct, kw_only=True):
    """A tool of the team that is enabled in the conversation."""

    name: str
    description: str
    schema: JsonObject


class Conversation(Struct, kw_only=True):
    """The room itself. ``server``, ``model`` and ``parameters`` are what the composer offers next.

    ``project`` is the name of its project, for a person who reads the project. ``archived_at`` is
    ``null`` unless it is in the archive. ``visible_turn`` is the last turn of the branch that the
    person who exported it saw.
    """

    id: UUID
    title: Name
    team: str
    owner: Person
    visibility: Literal["private", "team", "project"]
    project: str | None = None
    system_prompt: str
    server: str | None
    model: Name
    parameters: JsonObject
    tools: list[Tool]
    created_at: Time
    updated_at: Time
    archived_at: Time | None = None
    visible_turn: UUID | None


class Attempt(Struct, kw_only=True):
    """One attempt to reach the server."""

    number: Place
    started_at: Time
    outcome: Word
    error_kind: Word
    error_message: str
    retry_after_seconds: float | None


class AnswerFile(Struct, kw_only=True):
    """A file that the answer contained as bytes: which medium of which item it is."""

    choice: Place
    item: Place
    position: Place
    file: UUID
    transcript: str


class Question(Struct, kw_only=True):
    """What the run waited for. ``answer`` of a tool call is without its ``output``: the result is in
    ``inputs`` of the next run if it was given to the model, and private if not."""

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


class Run(Struct, kw_only=True):
    """One request to a server. An answer that was continued has several.

    ``events`` is the log, each event as it was stored; ``result`` what the run ended with. Both are
    without what only the server itself can use (signatures, encrypted reasoning). ``instructions``
    are those of the project, which the request had before ``system_prompt``; empty for a person
    who doesn't read the project.
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
    """A file of the conversation. Its bytes are in ``contents`` under ``sha256``."""

    id: UUID
    name: Annotated[str, Meta(max_length=255)]
    media_type: MediaType
    size_bytes: Figure
    sha256: Digest
    created_by: Person | None
    created_at: Time


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
    contents: dict[str, str] | None


def schema() -> dict[str, Any]:
    """The JSON Schema of `Export`; ``python -m chat.exports.format`` prints it."""
    found = msgspec.json.schema(Export)
    for struct in found["$defs"].values():
        # Docstrings are wrapped and indented for the code.
        struct["description"] = " ".join(struct.get("description", "").split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
