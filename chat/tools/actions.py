"""The function tools of a team, and which of them are enabled in a conversation.

The caller has fetched every object through ``chat.access``. Owners and admins of a team create,
change and delete its tools; everyone who may write in a conversation enables them there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from chat.core.errors import ActionRefused, storage_errors
from chat.events import JsonObject
from chat.models import AuditEvent, Team, Tool, User
from chat.rendering.figures import count, size

# Every API accepts these.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
DESCRIPTION_LENGTH = 4000
SCHEMA_BYTES = 64 * 1024

EMPTY_SCHEMA: JsonObject = {"type": "object", "properties": {}}


def create_tool(user: User, team: Team, *, name: str, description: str, schema: str) -> Tool:
    """Creates a tool. ``schema`` is the text of a JSON Schema of type object; empty means no
    arguments. Raises ``ActionRefused`` for what some servers would not accept."""
    values = _values(name, description, schema)
    with storage_errors(), _only_one_called(name), transaction.atomic():
        tool = Tool.objects.create(team=team, created_by=user, **values)
        AuditEvent.objects.record(user, "tool.created", target=team.name, tool=tool.name)
    return tool


def change_tool(user: User, tool: Tool, *, name: str, description: str, schema: str) -> Tool:
    """Changes a tool from the next message on; runs keep the definition that they were sent
    with."""
    values = _values(name, description, schema)
    with storage_errors(), _only_one_called(name), transaction.atomic():
        if not Tool.objects.filter(pk=tool.pk).update(**values):
            raise ActionRefused(gettext("This tool was removed."))
        AuditEvent.objects.record(user, "tool.changed", target=tool.team.name, tool=values["name"])
    tool.refresh_from_db()
    return tool


def remove_tool(user: User, tool: Tool) -> None:
    """Deletes a tool, also from all conversations."""
    with storage_errors(), transaction.atomic():
        removed, _ = Tool.objects.filter(pk=tool.pk).delete()
        if removed:
            AuditEvent.objects.record(user, "tool.removed", target=tool.team.name, tool=tool.name)


# --- checks --------------------------------------------------------------------------------


def _values(name: str, description: str, schema: str) -> JsonObject:
    if not NAME.fullmatch(name):
        raise ActionRefused(
            gettext("A tool name consists of 1 to 64 letters, digits, underscores and dashes.")
        )
    if len(description) > DESCRIPTION_LENGTH:
        text = gettext("The description is longer than %(limit)s characters.")
        raise ActionRefused(text % {"limit": count(DESCRIPTION_LENGTH)})
    description = description.replace("\x00", "").strip()
    return {"name": name, "description": description, "schema": read_schema(schema)}


def read_schema(text: str) -> JsonObject:
    """The schema in the text. Raises ``ActionRefused`` with the reason if it is wrong."""
    if not text.strip():
        return dict(EMPTY_SCHEMA)
    body = text.encode("utf-8", "replace")
    if len(body) > SCHEMA_BYTES:
        text = gettext("The schema is larger than %(limit)s.")
        raise ActionRefused(text % {"limit": size(SCHEMA_BYTES)})
    try:
        schema = msgspec.json.decode(body)
        # PostgreSQL stores no NUL in JSON.
        has_nul = b"\\u0000" in msgspec.json.encode(schema)
    except (msgspec.DecodeError, RecursionError) as error:
        text = gettext("The schema isn’t valid JSON: %(problem)s.")
        raise ActionRefused(text % {"problem": error}) from None
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ActionRefused(gettext('The schema must be a JSON object with "type": "object".'))
    if has_nul or not isinstance(schema.get("properties", {}), dict):
        raise ActionRefused(
            gettext('"properties" of the schema must be an object without NUL characters.')
        )
    return schema


@contextmanager
def _only_one_called(name: str) -> Iterator[None]:
    """Turns the conflict of two tools of one name into a sentence."""
    try:
        yield
    except IntegrityError:
        text = gettext("The team already has a tool named %(name)s.")
        raise ActionRefused(text % {"name": name}) from None
