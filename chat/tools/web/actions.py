"""Turns a team's web search on, changes it, and turns it off.

The caller has fetched the team through ``chat.access`` with the right to manage its tool servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.db import transaction
from django.utils.translation import gettext

from chat.core.errors import ActionRefused, storage_errors
from chat.models import AuditEvent, SearchService, Team, Tool, ToolKind, ToolRequest, ToolRule, User
from chat.tools.definitions import rule_and_digest, withdraw_allowances
from chat.tools.http_definition import check_address, origin, places_in
from chat.tools.web import definitions
from chat.tools.web.results import BRAVE_ADDRESS, KEY_HEADERS, TAVILY_ADDRESS

WEB_KINDS = (ToolKind.SEARCH, ToolKind.PAGE)
KEY_LENGTH = 500
# The services with one address for everybody.
ADDRESSES: Mapping[str, str] = {
    SearchService.BRAVE: BRAVE_ADDRESS,
    SearchService.TAVILY: TAVILY_ADDRESS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearchValues:
    """``address`` is that of a SearXNG server, ``key`` that of another service; an empty one keeps the stored one.
    ``page_rule`` is when pages are read; off: models get no such tool."""

    service: str
    address: str = ""
    key: str = field(default="", repr=False)
    rule: str = ToolRule.AUTO
    page_rule: str = ToolRule.ASK


def web_tools(team: Team) -> dict[str, Tool]:
    """The team's tools for the web, by kind."""
    rows = team.tools.filter(kind__in=WEB_KINDS).select_related("request", "team")
    return {tool.kind: tool for tool in rows}


def set_web_search(user: User, team: Team, values: WebSearchValues) -> None:
    """Turns the search on, or changes it from the next call on. Raises ``ActionRefused``."""
    address = checked_address(values.service, values.address)
    for rule in (values.rule, values.page_rule):
        if rule not in ToolRule.values:
            raise ActionRefused(gettext("Choose when the tool may run."))
    with storage_errors(), transaction.atomic():
        # Two people who turn it on at once wait for each other here.
        Team.objects.select_for_update().get(pk=team.pk)
        found = web_tools(team)
        search = found.get(ToolKind.SEARCH) or _new_tool(user, team, ToolKind.SEARCH)
        before = rule_and_digest(search)
        _store_service(search, values, address)
        _set_rule(user, search, values.rule, before)
        page = found.get(ToolKind.PAGE)
        if page is None and values.page_rule != ToolRule.OFF:
            page = _new_tool(user, team, ToolKind.PAGE)
        if page is not None:
            _set_rule(user, page, values.page_rule, rule_and_digest(page))


def remove_web_search(user: User, team: Team) -> None:
    """Removes both tools, also from all conversations."""
    with storage_errors(), transaction.atomic():
        for tool in web_tools(team).values():
            tool.delete()
            AuditEvent.objects.record(user, "tool.removed", target=team.name, tool=tool.name)


def checked_address(service: str, address: str) -> str:
    """The address of the service. Raises ``ActionRefused`` with the reason."""
    if service not in SearchService.values:
        raise ActionRefused(gettext("Choose a search service."))
    if service in ADDRESSES:
        return ADDRESSES[service]
    checked = check_address(address)
    if places_in(checked) or urlsplit(checked).query:
        raise ActionRefused(gettext("Enter the address without a query and without places."))
    return checked


def _store_service(tool: Tool, values: WebSearchValues, address: str) -> None:
    stored = ToolRequest.objects.filter(tool=tool).first() or ToolRequest(tool=tool)
    stored.tool = tool
    keeps = bool(stored.pk) and stored.service == values.service and stored.has_headers
    keeps = keeps and origin(stored.address) == origin(address)
    if values.service in KEY_HEADERS:
        if values.key:
            name, form = KEY_HEADERS[values.service]
            stored.set_headers({name: form.format(key=checked_key(values.key))})
        elif not keeps:
            raise ActionRefused(gettext("Enter the key of the search service."))
    else:
        stored.set_headers({})
    stored.service, stored.address = values.service, address
    stored.method = "POST" if values.service == SearchService.TAVILY else "GET"
    stored.save()


def checked_key(key: str) -> str:
    """The key without surrounding space. Raises ``ActionRefused``, without the key."""
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key or len(key) > KEY_LENGTH:
        raise ActionRefused(gettext("A key consists of letters, digits and signs without spaces."))
    return key


def _new_tool(user: User, team: Team, kind: ToolKind) -> Tool:
    name, description, schema = _DEFINITIONS[kind]
    if team.tools.filter(name=name).exists():
        text = gettext("The team already has a tool named %(name)s.")
        raise ActionRefused(text % {"name": name})
    return Tool.objects.create(
        team=team,
        created_by=user,
        kind=kind,
        name=name,
        description=description,
        schema=schema,
        is_read_only=True,
        is_idempotent=True,
        rule=ToolRule.OFF,
    )


_DEFINITIONS = {
    ToolKind.SEARCH: (
        definitions.SEARCH_NAME,
        definitions.SEARCH_DESCRIPTION,
        definitions.SEARCH_SCHEMA,
    ),
    ToolKind.PAGE: (definitions.PAGE_NAME, definitions.PAGE_DESCRIPTION, definitions.PAGE_SCHEMA),
}


def _set_rule(user: User, tool: Tool, rule: str, before: tuple[str, str]) -> None:
    tool.rule = rule
    tool.save(update_fields=["rule"])
    withdraw_allowances(tool, before)
    AuditEvent.objects.record(
        user, "tool.changed", target=tool.team.name, tool=tool.name, kind=tool.kind, rule=rule
    )
