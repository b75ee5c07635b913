"""The audit log in words: one sentence for each action that is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat.models import AuditEvent, Conversation, ProjectRole, TeamRole
from chat.web.admin import cell

# A verb, with what tells two of its sentences apart after a colon (`_variant`).
SENTENCES = {
    "conversation.delete": gettext_lazy("%(actor)s deleted %(subject)s’s conversation %(conversation)s"),
    "conversation.export": gettext_lazy("All conversations were exported from the command line"),
    "conversation.export:team": gettext_lazy("The shared conversations of %(target)s were exported from the command line"),
    "conversation.export:user": gettext_lazy("%(subject)s’s conversations were exported from the command line"),
    "conversation.export:all_on_page": gettext_lazy("%(actor)s exported all conversations"),
    "conversation.export:team_on_page": gettext_lazy("%(actor)s exported the shared conversations of %(target)s"),
    "conversation.export:user_on_page": gettext_lazy("%(actor)s exported their own conversations"),
    "conversation.erase": gettext_lazy("%(actor)s deleted %(subject)s’s conversation %(conversation)s forever"),
    "conversation.move:in": gettext_lazy("%(actor)s moved %(subject)s’s conversation %(conversation)s into the project %(project)s"),
    "conversation.move:out": gettext_lazy("%(actor)s moved %(subject)s’s conversation %(conversation)s out of the project %(project)s"),
    "conversation.purge": gettext_lazy("A conversation of %(subject)s was deleted forever because its time was over"),
    "conversation.read_by_administrator": gettext_lazy("%(actor)s read %(subject)s’s conversation %(conversation)s"),
    "conversation.restore": gettext_lazy("%(actor)s restored %(subject)s’s conversation %(conversation)s"),
    "conversation.search_by_administrator": gettext_lazy("%(actor)s searched all conversations for %(words)s"),
    "conversation.set_visibility:private": gettext_lazy("%(actor)s made %(subject)s’s conversation %(conversation)s private"),
    "conversation.set_visibility:project": gettext_lazy("%(actor)s shared %(subject)s’s conversation %(conversation)s with its project"),
    "conversation.set_visibility:team": gettext_lazy("%(actor)s shared %(subject)s’s conversation %(conversation)s with the team"),
    "import.created": gettext_lazy("%(actor)s imported %(count)s conversations into %(target)s"),
    "import.undone": gettext_lazy("%(actor)s undid an import into %(target)s: %(count)s conversations were deleted"),
    "installation.restored": gettext_lazy("The database was replaced with the backup of %(made_at)s from the command line"),
    "installation.set_up": gettext_lazy("%(actor)s set up this installation and its first team, %(target)s"),
    "invitation.created": gettext_lazy("%(actor)s created an invitation link to %(target)s (role: %(role)s)"),
    "invitation.created:email": gettext_lazy("%(actor)s invited %(email)s to %(target)s (role: %(role)s)"),
    "invitation.revoked": gettext_lazy("%(actor)s revoked an invitation link to %(target)s"),
    "invitation.revoked:email": gettext_lazy("%(actor)s revoked %(email)s’s invitation to %(target)s"),
    "invitation.used": gettext_lazy("%(actor)s joined %(target)s (role: %(role)s)"),
    "keys.accept": gettext_lazy("The current keys were accepted from the command line"),
    "keys.rotate": gettext_lazy("All stored credentials were re-encrypted with the newest key from the command line"),
    "membership.added": gettext_lazy("%(actor)s added %(subject)s to %(target)s (role: %(role)s)"),
    "membership.removed": gettext_lazy("%(actor)s removed %(subject)s from %(target)s"),
    "membership.removed:self": gettext_lazy("%(actor)s left %(target)s"),
    "membership.role_changed": gettext_lazy("%(actor)s changed %(subject)s’s role in %(target)s from %(before)s to %(after)s"),
    "project.changed": gettext_lazy("%(actor)s changed the project %(target)s"),
    "project.changed:members": gettext_lazy("%(actor)s limited the project %(target)s to selected people"),
    "project.changed:team": gettext_lazy("%(actor)s opened the project %(target)s to everyone on the team"),
    "project.created": gettext_lazy("%(actor)s created the project %(target)s in %(team)s"),
    "project.deleted": gettext_lazy("%(actor)s deleted the project %(target)s"),
    "project.file_added": gettext_lazy("%(actor)s added the file %(file)s to the project %(target)s"),
    "project.file_removed": gettext_lazy("%(actor)s removed the file %(file)s from the project %(target)s"),
    "project.member_added": gettext_lazy("%(actor)s added %(subject)s to the project %(target)s (role: %(role)s)"),
    "project.member_removed": gettext_lazy("%(actor)s removed %(subject)s from the project %(target)s"),
    "project.member_removed:self": gettext_lazy("%(actor)s left the project %(target)s"),
    "project.role_changed": gettext_lazy("%(actor)s changed %(subject)s’s role in the project %(target)s from %(before)s to %(after)s"),
    "question.approved": gettext_lazy("%(actor)s approved a tool call in %(subject)s’s conversation %(conversation)s"),
    "question.declined": gettext_lazy("%(actor)s declined a tool call in %(subject)s’s conversation %(conversation)s"),
    "team.changed": gettext_lazy("%(actor)s renamed the team %(target)s"),
    "team.created": gettext_lazy("%(actor)s created the team %(target)s"),
    "token.created": gettext_lazy("%(actor)s created the access token %(token)s for %(target)s"),
    "token.revoked": gettext_lazy("%(actor)s revoked %(subject)s’s access token %(token)s"),
    "tool.changed": gettext_lazy("%(actor)s changed the tool %(tool)s in %(target)s"),
    "tool.created": gettext_lazy("%(actor)s added the tool %(tool)s to %(target)s"),
    "tool.removed": gettext_lazy("%(actor)s removed the tool %(tool)s from %(target)s"),
    "upstream.add": gettext_lazy("%(actor)s added the server %(target)s"),
    "upstream.change": gettext_lazy("%(actor)s changed the settings of the server %(target)s"),
    "upstream.delete": gettext_lazy("%(actor)s deleted the server %(target)s"),
    "upstream.disable": gettext_lazy("%(actor)s disabled the server %(target)s"),
    "upstream.drain": gettext_lazy("%(actor)s paused the server %(target)s"),
    "upstream.enable": gettext_lazy("%(actor)s enabled the server %(target)s"),
    "upstream.list_models": gettext_lazy("%(actor)s loaded the model list of the server %(target)s"),
    "upstream.resume": gettext_lazy("%(actor)s resumed the server %(target)s"),
    "upstream.test": gettext_lazy("%(actor)s tested the server %(target)s: passed"),
    "upstream.test:failed": gettext_lazy("%(actor)s tested the server %(target)s: failed"),
    "user.activated": gettext_lazy("%(actor)s reactivated %(subject)s’s account"),
    "user.changed": gettext_lazy("%(actor)s changed %(subject)s’s account"),
    "user.changed:administrator": gettext_lazy("%(actor)s made %(subject)s an administrator"),
    "user.changed:no_administrator": gettext_lazy("%(actor)s removed %(subject)s as an administrator"),
    "user.deactivated": gettext_lazy("%(actor)s deactivated %(subject)s’s account"),
    "user.password_set": gettext_lazy("%(actor)s set a new password"),
    "user.renamed": gettext_lazy("%(actor)s changed their name from %(before)s to %(after)s"),
    "user.reset_link_made": gettext_lazy("%(actor)s created a password reset link for %(subject)s"),
    "user.signed_out_elsewhere": gettext_lazy("%(actor)s signed out everywhere else"),
}  # fmt: skip
# What a filter calls them.
ACTIONS = {
    "conversation.delete": gettext_lazy("Conversation deleted"),
    "conversation.export": gettext_lazy("Conversations exported"),
    "conversation.erase": gettext_lazy("Conversation deleted forever"),
    "conversation.move": gettext_lazy("Conversation moved"),
    "conversation.purge": gettext_lazy("Conversation deleted automatically"),
    "conversation.read_by_administrator": gettext_lazy("Conversation read by an administrator"),
    "conversation.restore": gettext_lazy("Conversation restored"),
    "conversation.search_by_administrator": gettext_lazy("Conversations searched"),
    "conversation.set_visibility": gettext_lazy("Visibility changed"),
    "import.created": gettext_lazy("Conversations imported"),
    "import.undone": gettext_lazy("Import undone"),
    "installation.restored": gettext_lazy("Backup restored"),
    "installation.set_up": gettext_lazy("Installation set up"),
    "invitation.created": gettext_lazy("Invitation created"),
    "invitation.revoked": gettext_lazy("Invitation revoked"),
    "invitation.used": gettext_lazy("Invitation used"),
    "keys.accept": gettext_lazy("Keys accepted"),
    "keys.rotate": gettext_lazy("Keys rotated"),
    "membership.added": gettext_lazy("Member added"),
    "membership.removed": gettext_lazy("Member removed"),
    "membership.role_changed": gettext_lazy("Role changed"),
    "project.changed": gettext_lazy("Project changed"),
    "project.created": gettext_lazy("Project created"),
    "project.deleted": gettext_lazy("Project deleted"),
    "project.file_added": gettext_lazy("Project file added"),
    "project.file_removed": gettext_lazy("Project file removed"),
    "project.member_added": gettext_lazy("Project member added"),
    "project.member_removed": gettext_lazy("Project member removed"),
    "project.role_changed": gettext_lazy("Project role changed"),
    "question.approved": gettext_lazy("Tool call approved"),
    "question.declined": gettext_lazy("Tool call declined"),
    "team.changed": gettext_lazy("Team renamed"),
    "team.created": gettext_lazy("Team created"),
    "token.created": gettext_lazy("Access token created"),
    "token.revoked": gettext_lazy("Access token revoked"),
    "tool.changed": gettext_lazy("Tool changed"),
    "tool.created": gettext_lazy("Tool added"),
    "tool.removed": gettext_lazy("Tool removed"),
    "upstream.add": gettext_lazy("Server added"),
    "upstream.change": gettext_lazy("Server changed"),
    "upstream.delete": gettext_lazy("Server deleted"),
    "upstream.disable": gettext_lazy("Server disabled"),
    "upstream.drain": gettext_lazy("Server paused"),
    "upstream.enable": gettext_lazy("Server enabled"),
    "upstream.list_models": gettext_lazy("Models loaded"),
    "upstream.resume": gettext_lazy("Server resumed"),
    "upstream.test": gettext_lazy("Server tested"),
    "user.activated": gettext_lazy("Account reactivated"),
    "user.changed": gettext_lazy("Account changed"),
    "user.deactivated": gettext_lazy("Account deactivated"),
    "user.password_set": gettext_lazy("Password set"),
    "user.renamed": gettext_lazy("Name changed"),
    "user.reset_link_made": gettext_lazy("Password reset link created"),
    "user.signed_out_elsewhere": gettext_lazy("Signed out elsewhere"),
}
ROLES = {
    TeamRole.OWNER: gettext_lazy("owner"),
    TeamRole.ADMIN: gettext_lazy("admin"),
    TeamRole.MEMBER: gettext_lazy("member"),
    TeamRole.VIEWER: gettext_lazy("viewer"),
    ProjectRole.MANAGER: gettext_lazy("manager"),
    ProjectRole.WRITER: gettext_lazy("writer"),
    ProjectRole.READER: gettext_lazy("reader"),
}
ICONS = {
    "conversation": "message-square",
    "import": "upload",
    "installation": "flag",
    "invitation": "mail",
    "keys": "key",
    "membership": "users",
    "project": "folder",
    "question": "wrench",
    "team": "users",
    "token": "key",
    "tool": "wrench",
    "upstream": "server",
    "user": "user",
}
# Values that have no name of their own stand in quotation marks.
_DETAILS = ("email", "token", "tool", "words", "count", "project", "team", "file")
QUOTED = ("conversation", "words", "token")
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
    return str(ACTIONS.get(verb, verb))


def icon_of(verb: str) -> str:
    return ICONS.get(verb.partition(".")[0], "info")


def read_titles(events: Iterable[AuditEvent]) -> dict[int, str]:
    """The titles of the conversations that these events are about, by the key of the event, with
    one query."""
    about = {event.pk: key for event in events if (key := conversation_key(event))}
    rows = Conversation.objects.filter(public_id__in=set(about.values()))
    titles = dict(rows.values_list("public_id", "title"))
    return {pk: titles[key] or gettext("Untitled") for pk, key in about.items() if key in titles}


def conversation_key(event: AuditEvent) -> UUID | None:
    if event.verb.partition(".")[0] not in ("conversation", "question"):
        return None
    found = _UUID.search(event.target)
    return UUID(found[0]) if found else None


def _template(event: AuditEvent) -> str:
    text = SENTENCES.get(_variant(event)) or SENTENCES.get(event.verb)
    # A verb of another version: what is known of it.
    return str(text or gettext("%(actor)s: %(verb)s %(target)s"))


def _variant(event: AuditEvent) -> str:
    kind = _KINDS.get(event.verb)
    return f"{event.verb}:{kind(event, _detail(event))}" if kind else event.verb


def _administrator(event: AuditEvent, detail: Mapping[str, Any]) -> str:
    """Only if nothing else was changed at the same time."""
    if list(detail) != ["is_staff"]:
        return ""
    change = detail["is_staff"]
    return "administrator" if isinstance(change, dict) and change.get("to") else "no_administrator"


def _outcome(event: AuditEvent, detail: Mapping[str, Any]) -> str:
    steps = detail.get("steps")
    return "failed" if isinstance(steps, dict) and "failed" in steps.values() else ""


def _is_by_themselves(event: AuditEvent, detail: Mapping[str, Any]) -> str:
    return "self" if event.actor_id and event.actor_id == event.subject_id else ""


def _export_kind(event: AuditEvent, detail: Mapping[str, Any]) -> str:
    """Whose conversations, and whether a command exported them: those have no actor."""
    whose = "user" if event.subject_id else "team" if event.target else "all"
    if event.actor_id:
        return f"{whose}_on_page"
    return "" if whose == "all" else whose


_KINDS = {
    "conversation.export": _export_kind,
    "conversation.set_visibility": lambda event, detail: detail.get("visibility"),
    "invitation.created": lambda event, detail: "email" if detail.get("email") else "",
    "invitation.revoked": lambda event, detail: "email" if detail.get("email") else "",
    "conversation.move": lambda event, detail: detail.get("direction"),
    "membership.removed": _is_by_themselves,
    "project.changed": lambda event, detail: (
        detail.get("access") if detail.get("fields") == ["access"] else ""
    ),
    "project.member_removed": _is_by_themselves,
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
        "actor": event.actor or nobody,
        "subject": event.subject or nobody,
        "verb": event.verb,
        "target": _UUID.sub("", event.target).strip() or event.target,
        "conversation": title,
        **{name: detail.get(name, "") for name in _DETAILS},
        "made_at": _moment(detail.get("made_at")),
        **role,
    }
    cells = {name: cell(value) for name, value in values.items()}
    quoted = {name: gettext("“%(value)s”") % {"value": cells[name]} for name in QUOTED}
    if not title:
        quoted["conversation"] = gettext("(title no longer stored)")
    return cells | quoted


def _moment(value: object) -> str:
    """A time of ISO 8601 in words; anything else as it was recorded."""
    try:
        moment = timezone.localtime(datetime.fromisoformat(str(value)))
    except ValueError:
        return str(value or "")
    return date_format(moment, "DATETIME_FORMAT")


def _role(value: object) -> str:
    return str(ROLES.get(value, value or ""))  # type: ignore[call-overload]
