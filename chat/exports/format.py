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
from typing import Any, Literal
from uuid import UUID

import msgspec
from msgspec import Struct

from chat.events import JsonObject

NAME = "tributary.conversation"
VERSION = 1


class Person(Struct, kw_only=True):
    """Somebody with an account. ``null`` in place of a person: the account was deleted, or nobody."""

    name: str
    email: str


class Tool(Struct, kw_only=True):
    """A tool of the team that is enabled in the conversation."""

    name: str
    description: str
    schema: JsonObject


class Conversation(Struct, kw_only=True):
    """The room itself. ``server``, ``model`` and ``parameters`` are what the composer offers next.

    ``visible_turn`` is the last turn of the branch that the person who exported it saw.
    """

    id: UUID
    title: str
    team: str
    owner: Person
    visibility: Literal["private", "team"]
    system_prompt: str
    server: str | None
    model: str
    parameters: JsonObject
    tools: list[Tool]
    created_at: datetime
    updated_at: datetime
    visible_turn: UUID | None


class Attempt(Struct, kw_only=True):
    """One attempt to reach the server."""

    number: int
    started_at: datetime
    outcome: str
    error_kind: str
    error_message: str
    retry_after_seconds: float | None


class AnswerFile(Struct, kw_only=True):
    """A file that the answer contained as bytes: which medium of which item it is."""

    choice: int
    item: int
    position: int
    file: UUID
    transcript: str


class Question(Struct, kw_only=True):
    """What the run waited for. ``answer`` of a tool call is without its ``output``: the result is in
    ``inputs`` of the next run if it was given to the model, and private if not."""

    id: UUID
    kind: Literal["ask", "approval", "tool"]
    position: int
    ask_id: str
    body: JsonObject
    status: Literal["open", "claimed", "answered", "declined", "expired"]
    claimed_by: Person | None
    claimed_at: datetime | None
    answered_by: Person | None
    answered_at: datetime | None
    answer: JsonObject
    created_at: datetime


class Run(Struct, kw_only=True):
    """One request to a server. An answer that was continued has several.

    ``events`` is the log, each event as it was stored; ``result`` what the run ended with. Both are
    without what only the server itself can use (signatures, encrypted reasoning).
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
    dialect: str
    model: str
    system_prompt: str
    parameters: JsonObject
    tools: list[JsonObject]
    inputs: list[JsonObject]
    requested_by: Person | None
    stop_requested_by: Person | None
    stop_requested_at: datetime | None
    queued_at: datetime
    claimed_at: datetime | None
    request_sent_at: datetime | None
    first_event_at: datetime | None
    first_token_at: datetime | None
    finished_at: datetime | None
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    error_kind: str
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
    created_at: datetime
    # Files that a person attached, in order.
    attachments: list[UUID]
    runs: list[Run]


class ArtifactVersion(Struct, kw_only=True):
    """``run`` and ``seq`` name the event that made it."""

    number: int
    run: UUID
    seq: int
    identifier: str
    title: str
    language: str
    content_type: str
    content: str
    created_at: datetime


class Artifact(Struct, kw_only=True):
    id: UUID
    artifact_id: str
    created_at: datetime
    versions: list[ArtifactVersion]


class MockupFile(Struct, kw_only=True):
    """``file`` is null where the file was not downloaded; ``reason`` may say why."""

    path: str
    content_type: str
    announced_bytes: int
    status: Literal["wanted", "stored", "refused"]
    file: UUID | None
    reason: str


class MockupVersion(Struct, kw_only=True):
    """``run`` and ``seq`` name the event that made it."""

    number: int
    run: UUID
    seq: int
    identifier: str
    title: str
    entry: str
    changed: list[str]
    deleted: list[str]
    created_at: datetime
    files: list[MockupFile]


class Mockup(Struct, kw_only=True):
    id: UUID
    bundle_id: str
    server: str | None
    created_at: datetime
    versions: list[MockupVersion]


class File(Struct, kw_only=True):
    """A file of the conversation. Its bytes are in ``contents`` under ``sha256``."""

    id: UUID
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    created_by: Person | None
    created_at: datetime


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
