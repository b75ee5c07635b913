"""The tools that LM Studio runs by itself: its plugins, and MCP servers named with a request."""

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from chat.dialects.base import Parameter
from chat.dialects.stream import text_of
from chat.events import Json, JsonObject

# More in one request is a mistake, such as a whole configuration pasted twice.
MOST_INTEGRATIONS = 32

INTEGRATIONS = Parameter(
    name="integrations",
    label="Tools run by LM Studio",
    kind="json",
    # Headers of MCP servers hold credentials.
    is_secret=True,
    help='A JSON list. "mcp/name" is a server of LM Studio\'s own mcp.json; {"type": "plugin", '
    '"id": "mcp/name", "allowed_tools": ["…"]} offers some of its tools; {"type": '
    '"ephemeral_mcp", "server_label": "…", "server_url": "https://…", "allowed_tools": ["…"], '
    '"headers": {"Authorization": "Bearer …"}} is a remote MCP server for the requests of this '
    "upstream. LM Studio must allow each kind in its server settings.",
)

_LEFT_OUT = "Entry {number} of the integrations was left out: {reason}."


def read_integrations(value: object) -> tuple[list[Json], list[str]]:
    """The entries that LM Studio understands, and a note for each other one.

    A note names the entry by its number alone: whatever stands in it may be a credential.
    """
    if value is None:
        return [], []
    entries = value if isinstance(value, list) else [value]
    accepted: list[Json] = []
    notes: list[str] = []
    for number, entry in enumerate(entries[:MOST_INTEGRATIONS], start=1):
        found = _read(entry)
        if isinstance(found, _Reason):
            notes.append(_LEFT_OUT.format(number=number, reason=found))
        else:
            accepted.append(found)
    if len(entries) > MOST_INTEGRATIONS:
        notes.append(f"Only the first {MOST_INTEGRATIONS} integrations were sent.")
    return accepted, notes


class _Reason(str):
    """Why an entry cannot be sent."""

    __slots__ = ()


def _read(entry: Json) -> Json | _Reason:
    if isinstance(entry, str):
        return entry if entry.strip() else _Reason("it is empty")
    if not isinstance(entry, dict):
        return _Reason("it is neither a name nor an object")
    reader = _READERS.get(text_of(entry, "type"))
    return reader(entry) if reader else _Reason("its type is neither plugin nor ephemeral_mcp")


def _read_plugin(entry: JsonObject) -> JsonObject | _Reason:
    if not text_of(entry, "id"):
        return _Reason("a plugin needs its id")
    return _with_allowed_tools({"type": "plugin", "id": entry["id"]}, entry)


def _read_server(entry: JsonObject) -> JsonObject | _Reason:
    if not text_of(entry, "server_label"):
        return _Reason("an MCP server needs a server_label")
    if not _is_web_address(text_of(entry, "server_url")):
        return _Reason("an MCP server needs a server_url that begins with http:// or https://")
    headers = entry.get("headers")
    if headers is not None and not _are_headers(headers):
        return _Reason("headers are an object of texts without line breaks")
    server: JsonObject = {
        "type": "ephemeral_mcp",
        "server_label": entry["server_label"],
        "server_url": entry["server_url"],
    }
    return _with_allowed_tools({**server, "headers": headers} if headers else server, entry)


def _with_allowed_tools(wire: JsonObject, entry: JsonObject) -> JsonObject | _Reason:
    """A list that cannot be read is no reason to allow every tool."""
    if "allowed_tools" not in entry:
        return wire
    tools = entry["allowed_tools"]
    if not isinstance(tools, list) or not all(isinstance(tool, str) for tool in tools):
        return _Reason("allowed_tools is a list of names")
    return {**wire, "allowed_tools": tools}


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _are_headers(value: Json) -> bool:
    return isinstance(value, dict) and all(
        isinstance(content, str) and content.isprintable() and name.isprintable()
        for name, content in value.items()
    )


_READERS: Mapping[str, Callable[[JsonObject], JsonObject | _Reason]] = {
    "plugin": _read_plugin,
    "ephemeral_mcp": _read_server,
}
