"""The address and the headers of a tool server, as people type them."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.tools.command_lines import check_command, is_command

ADDRESS_LENGTH = 500
MOST_HEADERS = 20
HEADERS_LENGTH = 8000

_STRANGE = re.compile(r"[\s\x00-\x1f\x7f\\]")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
# The request itself, or the protocol, sets these.
_RESERVED = frozenset(
    (
        *("host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade"),
        *("accept", "accept-encoding", "expect", "te", "trailer", "keep-alive", "last-event-id"),
        *("cookie", "user-agent"),
    )
)
_OF_THE_PROTOCOL = ("mcp-", "proxy-")


def check_address(text: str) -> str:
    """The address as it is stored. It is used as it stands: nothing in it is a placeholder. Raises
    ``ActionRefused`` with the reason."""
    text = text.strip()
    if is_command(text):
        return check_command(text)
    if len(text) > ADDRESS_LENGTH:
        words = gettext("The address can have up to %(limit)d characters.")
        raise ActionRefused(words % {"limit": ADDRESS_LENGTH})
    if _STRANGE.search(text):
        raise ActionRefused(gettext("An address can’t contain spaces, line breaks or backslashes."))
    if not text.lower().startswith(("http://", "https://")):
        raise ActionRefused(gettext("Start the address with http:// or https://."))
    try:
        parts = urlsplit(text)
        is_valid = parts.port != 0 and bool(parts.hostname) and not parts.netloc.endswith(":")
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ActionRefused(gettext("This address isn’t valid. Check the host and the port."))
    if "@" in parts.netloc or "#" in text:
        raise ActionRefused(
            gettext("Leave user name, password and # out of the address. Use a header for a key.")
        )
    return text


def is_of_protocol(name: str) -> bool:
    """Returns whether a request to an MCP server sets the header with this name, in small letters, itself."""
    return name in _RESERVED or name.startswith(_OF_THE_PROTOCOL)


def read_headers(
    text: str, *, is_reserved: Callable[[str], bool] = is_of_protocol
) -> dict[str, str]:
    """The headers in a text with one ``Name: value`` a line. Raises ``ActionRefused`` with the reason, which has
    no value of a header. ``is_reserved``: whether a name, in small letters, can't be set."""
    headers: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            name, value = _header_in(line, number, is_reserved)
            if name.lower() in map(str.lower, headers):
                raise ActionRefused(gettext("The header %(name)s appears twice.") % {"name": name})
            headers[name] = value
    if len(headers) > MOST_HEADERS:
        raise ActionRefused(gettext("Enter at most %(limit)d headers.") % {"limit": MOST_HEADERS})
    return headers


def _header_in(line: str, number: int, is_reserved: Callable[[str], bool]) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in line.partition(":"))
    if not colon or not _NAME.fullmatch(name):
        text = gettext("Line %(line)d must look like “Name: value”.")
        raise ActionRefused(text % {"line": number})
    if is_reserved(name.lower()):
        text = gettext("Tributary sets the header %(name)s itself.")
        raise ActionRefused(text % {"name": name})
    if not _VALUE.fullmatch(value):
        text = gettext("The value of the header %(name)s is empty or has special characters.")
        raise ActionRefused(text % {"name": name})
    return name, value
