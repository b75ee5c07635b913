"""The audit log in words: one sentence for each action that is recorded."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.models import AuditEvent, Conversation, ProjectRole, TeamRole, User
from chat.web.admin import cell

VERBS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
ROLES = {
    TeamRole.OWNER: gettext_lazy("owner"),
    TeamRole.ADMIN: gettext_lazy("admin"),
    TeamRole.MEMBER: gettext_lazy("member"),
    TeamRole.VIEWER: gettext_lazy("viewer"),
    TeamRole.GUEST: gettext_lazy("guest"),
    ProjectRole.MANAGER: gettext_lazy("manager"),
    ProjectRole.WRITER: gettext_lazy("writer"),
    ProjectRole.READER: gettext_lazy("reader"),
}
ICONS = {
    "conversation": "message-square",
    "feedback": "thumbs-up",
    "group": "users",
    "identity": "key",
    "identity_provider": "key",
    "import": "upload",
    "installation": "flag",
    "invitation": "mail",
    "keys": "key",
    "membership": "users",
    "preset": "sliders-horizontal",
    "project": "folder",
    "question": "wrench",
    "second_factor": "shield-check",
    "team": "users",
    "token": "key",
    "tool": "wrench",
    "tool_account": "key",
    "tool_call": "wrench",
    "tool_choice": "wrench",
    "upstream": "server",
    "user": "user",
}
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
# The names in sentences, most of which are names of recorded details.
_NAMED = {
    name
    for sentences in VERBS.values()
    for text in sentences.values()
    for name in _PLACEHOLDER.findall(text)
}
# Values that have no name of their own stand in quotation marks.
QUOTED = ("conversation", "words", "token", "reason")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def sentence(event: AuditEvent, *, title: str = "") -> str:
    """Plain text. ``title`` is that of the conversation, if the event is about one."""
    values = _values(event, title)
    return _template(event) % values


def marked_sentence(event: AuditEvent, *, title: str = "") -> SafeString:
    """The same with each name in an element of its own, so that a name cannot turn the direction
    of the rest."""
    values = {
        name: format_html("<bdi>{}</bdi>", value) for name, value in _values(event, title).items()
    }
    return SafeString(escape(_template(event)) % values)


def action_name(verb: str) -> str:
    """The action's name in filters."""
    return gettext(VERBS[verb]["name"]) if verb in VERBS else verb


def icon_of(verb: str) -> str:
    return ICONS.get(verb.partition(".")[0], "info")


def read_titles(events: Iterable[AuditEvent], reader: User) -> dict[int, str]:
    """The titles of the conversations that these events are about, by the key of the event, as far as
    the reader may read them now. With one query."""
    about = {event.pk: key for event in events if (key := conversation_key(event))}
    rows = Conversation.objects.filter(
        access.is_readable(reader), public_id__in=set(about.values())
    )
    titles = dict(rows.values_list("public_id", "title"))
    return {pk: titles[key] or gettext("Untitled") for pk, key in about.items() if key in titles}


def conversation_key(event: AuditEvent) -> UUID | None:
    if event.verb.partition(".")[0] not in ("conversation", "question"):
        return None
    found = _UUID.search(event.target)
    return UUID(found[0]) if found else None


def _template(event: AuditEvent) -> str:
    sentences = VERBS.get(event.verb, {})
    kind = _KINDS.get(event.verb)
    variant = str(kind(event, _detail(event))) if kind else ""
    text = sentences.get(variant) or sentences.get("text")
    # A verb of another version has no sentence here.
    return gettext(text) if text else gettext("%(actor)s: %(verb)s %(target)s")


def _administrator(event: AuditEvent, detail: Mapping[str, Any]) -> str:
    """The key of the sentence about administrator rights, if nothing else was changed with them."""
    if list(detail) != ["is_staff"]:
        return ""
    change = detail["is_staff"]
    return "administrator" if isinstance(change, dict) and change.get("to") else "no_administrator"


def _outcome(event: AuditEvent, detail: Mapping[str, Any]) -> str:
    steps = detail.get("steps")
    return "failed" if isinstance(steps, dict) and "failed" in steps.values() else ""


def _is_by_themselves(event: AuditEvent, detail: Mapping[str, Any]) -> str:
    return "self" if event.actor_id and event.actor_id == event.subject_id else ""


def _is_about_group(event: AuditEvent, detail: Mapping[str, Any]) -> str:
    return "group" if detail.get("group") else ""


def _export_kind(event: AuditEvent, detail: Mapping[str, Any]) -> str:
    """The sentence's key: the owner of the exported conversations; exports by a command have no actor."""
    whose = "user" if event.subject_id else "team" if event.target else "all"
    if event.actor_id:
        return "all_with_reason" if detail.get("reason") else f"{whose}_on_page"
    return "" if whose == "all" else whose


_KINDS = {
    "feedback.exported": lambda event, detail: "team" if event.target else "",
    "feedback.exported_with_conversations": lambda event, detail: "team" if event.target else "",
    "conversation.export": _export_kind,
    "conversation.search_by_administrator": lambda event, detail: (
        "reason" if detail.get("reason") else ""
    ),
    "conversation.participant_added": _is_about_group,
    "conversation.participant_removed": lambda event, detail: (
        _is_about_group(event, detail) or _is_by_themselves(event, detail)
    ),
    "conversation.participant_role_changed": _is_about_group,
    "conversation.set_visibility": lambda event, detail: (
        "team_read" if detail.get("role") == "reader" else detail.get("visibility")
    ),
    "installation.title_model_chosen": lambda event, detail: "" if detail.get("model") else "off",
    "invitation.created": lambda event, detail: "email" if detail.get("email") else "",
    "invitation.revoked": lambda event, detail: "email" if detail.get("email") else "",
    "conversation.move": lambda event, detail: detail.get("direction"),
    "membership.removed": _is_by_themselves,
    "project.changed": lambda event, detail: (
        detail.get("access") if detail.get("fields") == ["access"] else ""
    ),
    "project.member_removed": _is_by_themselves,
    "tool_call.answered": lambda event, detail: (
        detail.get("decision") if detail.get("decision") in ("declined", "canceled") else ""
    ),
    "tool_call.approved": lambda event, detail: "edited" if detail.get("edited") else "",
    "upstream.test": _outcome,
    "user.changed": _administrator,
}


def _detail(event: AuditEvent) -> Mapping[str, Any]:
    return event.detail if isinstance(event.detail, dict) else {}


def _values(event: AuditEvent, title: str) -> dict[str, str]:
    """Everything that a sentence may name, each cut to the length of a cell."""
    detail = _detail(event)
    role = {name: _role(detail.get(name)) for name in ("role", "before", "after")}
    nobody = gettext("Deleted user")
    values = {
        **{name: detail.get(name, "") for name in _NAMED},
        "actor": event.actor or nobody,
        "subject": event.subject or nobody,
        "verb": event.verb,
        "target": _UUID.sub("", event.target).strip() or event.target,
        "conversation": title,
        "made_at": _moment(detail.get("made_at")),
        **role,
    }
    cells = {name: cell(value) for name, value in values.items()}
    quoted = {name: gettext("“%(value)s”") % {"value": cells[name]} for name in QUOTED}
    if not title:
        key = conversation_key(event)
        quoted["conversation"] = str(key) if key else gettext("(title no longer stored)")
    return cells | quoted


def _moment(value: object) -> str:
    """A time of ISO 8601 in words; anything else as it was recorded."""
    try:
        moment = timezone.localtime(datetime.fromisoformat(str(value)))
    except ValueError:
        return str(value or "")
    return date_format(moment, "DATETIME_FORMAT")


def _role(value: object) -> str:
    """The name of a role; anything else as it was recorded."""
    return str(ROLES[value]) if isinstance(value, str) and value in ROLES else str(value or "")
