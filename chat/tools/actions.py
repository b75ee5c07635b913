"""The tools of a team that people define: those that a person answers, and HTTP requests.

The caller has fetched every object through ``chat.access``. Owners and admins of a team create,
change and delete its tools, and people who manage its tool servers those that are HTTP requests; everyone who may
write in a conversation enables them there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import msgspec
from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from chat import access
from chat.core.errors import ActionRefused, storage_errors
from chat.events import JsonObject
from chat.models import AuditEvent, Team, Tool, ToolKind, ToolRequest, ToolRule, User
from chat.rendering.figures import count, size
from chat.result.deferred_tools import RESERVED_NAMES
from chat.tools.definitions import rule_and_digest, withdraw_allowances
from chat.tools.http_definition import METHODS, check_address, check_places, origin, read_headers

# Every API accepts these.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
DESCRIPTION_LENGTH = 4000
SCHEMA_BYTES = 64 * 1024

# Rules by which calls run without an approval.
AUTOMATIC = (ToolRule.AUTO, ToolRule.AUTO_PRIVATE)
EMPTY_SCHEMA: JsonObject = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequestValues:
    """The request of an HTTP tool. ``headers``: a text with one a line; empty keeps the stored ones, unless they
    are to be removed (``clear_headers``)."""

    method: str
    address: str
    headers: str = field(default="", repr=False)
    clear_headers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTraits:
    """The effects of a tool's calls, as the person who defines it says."""

    is_read_only: bool = False
    is_idempotent: bool = False
    is_destructive: bool = False


NO_TRAITS = CallTraits()


def create_tool(
    user: User,
    team: Team,
    *,
    name: str,
    description: str,
    schema: str,
    rule: str = ToolRule.ASK,
    traits: CallTraits = NO_TRAITS,
    request: HttpRequestValues | None = None,
) -> Tool:
    """Creates a tool. ``schema`` is the text of a JSON Schema of type object; empty means no
    arguments. With a ``request`` Tributary runs it, otherwise a person gives the result. Raises
    ``ActionRefused`` for what some servers would not accept."""
    _check_may_define(user, team, runs_here=request is not None)
    values = _values(name, description, schema, rule, traits, request)
    headers = read_headers(request.headers) if request else {}
    with storage_errors(), _only_one_called(name), transaction.atomic():
        tool = Tool.objects.create(team=team, created_by=user, **values)
        if request is not None:
            _store_request(ToolRequest(tool=tool), request, headers)
        _audit(user, "tool.created", tool)
    return tool


def change_tool(
    user: User,
    tool: Tool,
    *,
    name: str,
    description: str,
    schema: str,
    rule: str = ToolRule.ASK,
    traits: CallTraits = NO_TRAITS,
    request: HttpRequestValues | None = None,
) -> Tool:
    """Changes a tool from the next message on; runs keep the definition that they were sent
    with. Raises as ``create_tool`` does."""
    _check_may_define(user, tool.team, runs_here=request is not None or tool.runs_here)
    values = _values(name, description, schema, rule, traits, request)
    headers = read_headers(request.headers) if request else {}
    with storage_errors(), _only_one_called(name), transaction.atomic():
        rows = Tool.objects.select_for_update().filter(kind__in=(ToolKind.PERSON, ToolKind.HTTP))
        previous = rows.filter(pk=tool.pk).first()
        if previous is None:
            raise ActionRefused(gettext("This tool was removed."))
        before = rule_and_digest(previous)
        Tool.objects.filter(pk=tool.pk).update(**values)
        tool.refresh_from_db()
        stored = ToolRequest.objects.select_for_update().filter(tool=tool).first()
        if request is not None:
            _store_request(stored or ToolRequest(tool=tool), request, headers)
        elif stored is not None:
            stored.delete()
        withdraw_allowances(tool, before)
        _audit(user, "tool.changed", tool)
    return tool


def _store_request(
    stored: ToolRequest, request: HttpRequestValues, headers: Mapping[str, str]
) -> None:
    address = check_address(request.address)
    keeps = bool(stored.pk and stored.has_headers and not headers and not request.clear_headers)
    if keeps and origin(stored.address) != origin(address):
        raise ActionRefused(
            gettext(
                "The stored headers are for another server. Enter the headers for this one, or "
                "remove the stored ones."
            )
        )
    stored.method, stored.address = request.method, address
    if not keeps:
        stored.set_headers(headers)
    stored.save()


def _audit(user: User, verb: str, tool: Tool) -> None:
    AuditEvent.objects.record(
        user, verb, target=tool.team.name, tool=tool.name, kind=tool.kind, rule=tool.rule
    )


def remove_tool(user: User, tool: Tool) -> None:
    """Deletes a tool, also from all conversations. One of a server goes with its server."""
    with storage_errors(), transaction.atomic():
        removed, _ = Tool.objects.filter(pk=tool.pk).exclude(kind=ToolKind.MCP).delete()
        if removed:
            AuditEvent.objects.record(user, "tool.removed", target=tool.team.name, tool=tool.name)


# --- checks --------------------------------------------------------------------------------


def _check_may_define(user: User, team: Team, *, runs_here: bool) -> None:
    if runs_here and not access.may_manage_tool_servers(user, team):
        raise ActionRefused(gettext("Only administrators can define HTTP requests."))


def _values(
    name: str,
    description: str,
    schema: str,
    rule: str,
    traits: CallTraits,
    request: HttpRequestValues | None,
) -> dict[str, object]:
    if not NAME.fullmatch(name):
        raise ActionRefused(
            gettext("A tool name consists of 1 to 64 letters, digits, underscores and dashes.")
        )
    if name in RESERVED_NAMES:
        text = gettext("Choose another name: %(name)s is a function of Tributary itself.")
        raise ActionRefused(text % {"name": name})
    if len(description) > DESCRIPTION_LENGTH:
        text = gettext("The description is longer than %(limit)s characters.")
        raise ActionRefused(text % {"limit": count(DESCRIPTION_LENGTH)})
    arguments = read_schema(schema)
    if request is not None:
        if request.method not in METHODS:
            raise ActionRefused(gettext("Choose a method."))
        check_places(check_address(request.address), arguments)
    elif rule in AUTOMATIC:
        # A person gives the result, so there is nothing that runs by itself.
        rule = ToolRule.ASK
    _check_rule(rule, is_destructive=traits.is_destructive)
    if traits.is_read_only and traits.is_destructive:
        raise ActionRefused(gettext("A tool that only reads can’t change or delete things."))
    return {
        "name": name,
        "description": description.replace("\x00", "").strip(),
        "schema": arguments,
        "kind": ToolKind.PERSON if request is None else ToolKind.HTTP,
        "rule": rule,
        **asdict(traits if request is not None else NO_TRAITS),
    }


def _check_rule(rule: str, *, is_destructive: bool) -> None:
    if rule not in ToolRule.values:
        raise ActionRefused(gettext("Choose when the tool may run."))
    if is_destructive and rule in AUTOMATIC:
        raise ActionRefused(gettext("A tool that changes or deletes things has to ask each time."))


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
