"""How tools and their calls are told of: a tool's icon, when it runs, where a call goes, and with whose key."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from chat.models import Tool, ToolCall, ToolKind, ToolRule
from chat.rendering.components import name_of
from chat.rendering.safety import host_of

_ICONS: Mapping[str, str] = {
    ToolKind.PERSON: "hand",
    ToolKind.HTTP: "globe",
    ToolKind.MCP: "plug",
    ToolKind.SEARCH: "search",
    ToolKind.PAGE: "file-text",
    ToolKind.FILES: "file-text",
    ToolKind.SKILLS: "book-open",
}
_WORDS: Mapping[str, str | Promise] = {
    ToolRule.OFF: gettext_lazy("Off"),
    ToolRule.ASK: gettext_lazy("Asks first"),
    ToolRule.AUTO_PRIVATE: gettext_lazy("Runs by itself in private conversations"),
    ToolRule.AUTO: gettext_lazy("Runs by itself"),
}


def icon_of(tool: Tool) -> str:
    return _ICONS.get(tool.kind, "wrench")


def how_it_runs(tool: Tool) -> str:
    if tool.rule != ToolRule.OFF and not tool.runs_here:
        return gettext("A person answers")
    return str(_WORDS.get(tool.rule, ""))


def where_called(call: ToolCall) -> str:
    """The name of the server that a call goes to, or the host; empty for neither. Needs the tool's request."""
    has_request = call.kind in (ToolKind.HTTP, ToolKind.SEARCH)
    if call.server_name or not has_request or call.tool is None:
        return name_of(call.server_name)
    request = getattr(call.tool, "request", None)
    return host_of(request.address) if request else ""


def credential_of(call: ToolCall) -> str:
    """The owner of the credential that a call uses, in words."""
    if call.is_personal:
        text = gettext("With the account of %(person)s")
        return text % {"person": call.executor or gettext("Someone")}
    tool = call.tool
    holder = None if tool is None else tool.server or getattr(tool, "request", None)
    if holder is not None and holder.has_headers:
        return gettext("With the team’s key")
    return gettext("Without a key")
