"""Receipts of the calls of tools that Tributary ran for a run: by whom, when, with what, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString
from django.utils.translation import gettext

from chat import access
from chat.models import Run, ToolCall, ToolInput, ToolRule
from chat.rendering.components import excerpt, excerpt_of_json, name_of
from chat.rendering.figures import count, duration, milliseconds_of, size
from chat.rendering.hidden_letters import Part, visible_parts
from chat.rendering.safety import reveal
from chat.web.tool_words import credential_of, where_called

# Digits of a digest that tell two definitions apart; the whole one is in the title and in exports.
DIGEST_CHARACTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReceipt:
    """A request of the tool to people in the middle of the call. ``fields`` is the schema of the form as the server sent
    it, and ``content`` the values."""

    message: str
    address: list[Part]
    fields: SafeString | None
    content: SafeString | None
    facts: list[tuple[str, str]]
    moments: list[tuple[str, datetime]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReceipt:
    """``facts`` are labels and values, ``moments`` labels and times. ``asked`` are the arguments that the model asked
    for, if others were sent."""

    tool: str
    status: str
    facts: list[tuple[str, str]]
    moments: list[tuple[str, datetime]]
    digest: str
    sent: SafeString
    asked: SafeString | None
    error: str
    inputs: list[InputReceipt]
    # The raw messages, without credentials; only for those who see what servers sent.
    messages: list[tuple[str, SafeString]]

    @property
    def short_digest(self) -> str:
        return self.digest[:DIGEST_CHARACTERS]


def tool_receipts_of(run: Run, *, with_settings: bool) -> list[ToolReceipt]:
    """The receipts of the calls that the run asked for, in their order."""
    calls = ToolCall.objects.filter(question__run=run).select_related(
        *("question", "tool__server", "tool__request", "approved_by", "executor")
    )
    calls = calls.prefetch_related("inputs__answered_by", "recordings")
    is_shared = access.is_seen_by_others(run.conversation)
    return [
        _receipt(call, with_settings, hides_words=call.hides_words(is_shared=is_shared))
        for call in calls.order_by("question__position", "pk")
    ]


def _receipt(call: ToolCall, with_settings: bool, *, hides_words: bool) -> ToolReceipt:
    body = call.question.body
    asked = body.get("arguments") or {}
    settings = _settings_of(call) if with_settings else []
    moments = (
        (gettext("Approved"), call.approved_at),
        (gettext("Queued"), call.queued_at),
        (gettext("Claimed"), call.claimed_at),
        (gettext("Sent"), call.sent_at),
        (gettext("Finished"), call.finished_at),
    )
    return ToolReceipt(
        tool=name_of(str(body.get("tool") or "")),
        status=str(call.get_status_display()),
        facts=[(label, value) for label, value in [*settings, *_facts_of(call)] if value],
        moments=[(label, at) for label, at in moments if at is not None],
        digest=call.definition_digest if with_settings else "",
        sent=excerpt_of_json(call.arguments),
        asked=excerpt_of_json(asked) if asked != call.arguments else None,
        error=gettext(call.error) if call.error else "",
        inputs=[] if hides_words else [_input(row) for row in call.inputs.all()],
        messages=_messages_of(call) if with_settings and not hides_words else [],
    )


def _messages_of(call: ToolCall) -> list[tuple[str, SafeString]]:
    texts = []
    for each in sorted(call.recordings.all(), key=lambda recording: recording.pk):
        texts.append((gettext("Sent to the server"), each.sent))
        texts.append((gettext("Received from the server"), each.received))
    return [(label, excerpt(text)) for label, text in texts if text]


def _input(row: ToolInput) -> InputReceipt:
    moments = ((gettext("Asked"), row.created_at), (gettext("Answered"), row.answered_at))
    return InputReceipt(
        message=reveal(row.message),
        address=visible_parts(row.url),
        fields=excerpt_of_json(row.schema.get("properties") or {}) if not row.url else None,
        content=excerpt_of_json(row.content) if row.content else None,
        facts=[
            (gettext("Outcome"), str(row.get_status_display())),
            *([(gettext("Answered by"), str(row.answered_by))] if row.answered_by else []),
        ],
        moments=[(label, at) for label, at in moments if at is not None],
    )


def _settings_of(call: ToolCall) -> list[tuple[str, str]]:
    rule = ToolRule(call.rule).label if call.rule in ToolRule.values else ""
    return [
        (gettext("Server"), where_called(call)),
        (gettext("Credential"), credential_of(call) if call.sent_at else ""),
        (gettext("Rule"), str(rule)),
    ]


def _facts_of(call: ToolCall) -> list[tuple[str, str]]:
    took = ""
    if call.sent_at and call.finished_at:
        took = duration(milliseconds_of((call.finished_at - call.sent_at).total_seconds()))
    return [
        (gettext("Approved by"), str(call.approved_by or "")),
        (gettext("Result"), gettext("Kept private") if call.has_private_result else ""),
        (gettext("Attempt"), count(call.attempt) if call.attempt else ""),
        (gettext("Duration"), took),
        (gettext("Request size"), size(call.request_bytes) if call.sent_at else ""),
        (gettext("Response size"), size(call.response_bytes) if call.response_bytes else ""),
    ]
