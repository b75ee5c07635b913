"""Each column of an exported model is in the export, or is named here as left out on purpose."""

from __future__ import annotations

from django.db.models import Model
from msgspec import Struct

from chat.exports import format as form
from chat.models import (
    AnswerFile,
    Artifact,
    ArtifactVersion,
    Attempt,
    Comment,
    Conversation,
    Feedback,
    Message,
    Mockup,
    MockupFile,
    MockupVersion,
    Question,
    Run,
    StoredFile,
    Tool,
    ToolCall,
)

# What a record belongs to is the record around it. A version names its run itself.
AROUND = {"conversation", "message", "artifact", "mockup", "version"}
# The members that have other names than their columns.
MEMBERS = {
    "public_id": "id",
    "upstream": "server",
    "content": "sha256",
    "preset_version": "preset",
}
RECORDS: dict[type[Model], tuple[type[Struct], set[str]]] = {
    Conversation: (
        form.Conversation,
        {
            *(
                "has_automatic_title",
                "shows_settings",
                "revision",
                "comments_version",
                "deleted_at",
            ),
            "expires_at",
        },
    ),
    # What a tool calls, and when it runs, belongs to the team.
    Tool: (
        form.Tool,
        {
            *("public_id", "team", "created_by", "created_at", "kind", "rule", "server"),
            *("remote_name", "is_read_only", "is_idempotent", "is_destructive"),
            *("seen_digest", "offered", "keeps_private"),
        },
    ),
    # A call belongs to its question; its claim, its progress and what its server keeps are for runners and open pages.
    # What the tool asked people is in the log, as a part of the call's execution.
    ToolCall: (
        form.ToolCall,
        {
            *("question", "tool", "runner", "claim", "claimed_at", "progress"),
            *("rounds", "answered_round", "sealed_state", "sealed_task"),
            *("executor", "is_personal", "keeps_private", "private_output"),
            *("has_private_result", "private_files", "needed_scope"),
        },
    ),
    Message: (form.Turn, {"revision", "feedback_revision"}),
    Run: (
        form.Run,
        {
            *("position", "last_seq", "response_id", "idempotency_key", "request_digest"),
            *("runner", "preset_version"),
        },
    ),
    Attempt: (form.Attempt, {"run"}),
    Question: (form.Question, {"run"}),
    AnswerFile: (form.AnswerFile, {"run"}),
    Artifact: (form.Artifact, set()),
    ArtifactVersion: (form.ArtifactVersion, set()),
    Mockup: (form.Mockup, set()),
    MockupVersion: (form.MockupVersion, set()),
    MockupFile: (form.MockupFile, {"attempts", "due_at"}),
    Feedback: (form.Feedback, {"answer"}),
    Comment: (form.Comment, {"part", "start", "idempotency_key"}),
    # The digest is that of the bytes, also of deleted ones.
    StoredFile: (form.File, {"project", "deleted_sha256"}),
}


def test_every_column_is_exported_or_named_as_left_out() -> None:
    for model, (record, left_out) in RECORDS.items():
        columns = {column.name for column in model._meta.concrete_fields} - {"id"}
        members = set(record.__struct_fields__)
        left = {name for name in columns if not members & {name, MEMBERS.get(name)}}

        assert left - AROUND == left_out, model
