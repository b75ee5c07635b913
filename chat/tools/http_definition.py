"""The parts of an HTTP tool's definition that people type: an address with places for arguments, and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.rendering.figures import count
from chat.tools import server_headers
from chat.tools.server_headers import HEADERS_LENGTH

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# The arguments that the address has no place for are the query of these, and the JSON body of others.
METHODS_WITHOUT_BODY = frozenset(("GET", "DELETE"))
ADDRESS_LENGTH = 1000
DEFAULT_PORTS = {"http": 80, "https": 443}

PLACE = re.compile(r"\{([^{}]*)\}")
ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_STRANGE = re.compile(r"[\s\x00-\x1f\x7f\\]")
# The request itself sets these.
RESERVED_HEADERS = frozenset(
    (
        *("host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade"),
        *("accept-encoding", "expect", "te", "trailer", "keep-alive", "proxy-authorization"),
    )
)


def places_in(address: str) -> list[str]:
    """The names of the arguments that the address has a place for, in their order."""
    return list(dict.fromkeys(PLACE.findall(address)))


def check_address(address: str) -> str:
    """The address without surrounding space. Raises ``ActionRefused`` with the reason."""
    address = address.strip()
    if len(address) > ADDRESS_LENGTH:
        text = gettext("The address is longer than %(limit)s characters.")
        raise ActionRefused(text % {"limit": count(ADDRESS_LENGTH)})
    if _STRANGE.search(address):
        raise ActionRefused(gettext("An address can’t contain spaces, line breaks or backslashes."))
    if not address.lower().startswith(("http://", "https://")):
        raise ActionRefused(gettext("Start the address with http:// or https://."))
    _check_places(address)
    _check_parts(_split(address))
    return address


def _check_places(address: str) -> None:
    rest = PLACE.sub("", address)
    if "{" in rest or "}" in rest:
        raise ActionRefused(gettext("Write each place for an argument as {name}."))
    for name in places_in(address):
        if not ARGUMENT.fullmatch(name):
            text = gettext(
                "“%(name)s” can’t be the name of an argument. Use letters, digits, dots, "
                "underscores and dashes."
            )
            raise ActionRefused(text % {"name": name[:64]})


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        has_port = parts.port is not None
    except ValueError:
        # A placeholder as port ends here, too.
        if "{" in address.partition("://")[2].partition("/")[0]:
            raise ActionRefused(_no_place_in_host()) from None
        raise ActionRefused(gettext("The address isn’t valid.")) from None
    if (has_port and not parts.port) or parts.netloc.endswith(":"):
        raise ActionRefused(gettext("The port must be a number from 1 to 65535."))
    return parts


def _check_parts(parts: SplitResult) -> None:
    if "{" in parts.netloc or "}" in parts.netloc:
        raise ActionRefused(_no_place_in_host())
    if "@" in parts.netloc:
        raise ActionRefused(
            gettext("Leave the user name and password out of the address. Use a header for a key.")
        )
    if not parts.netloc.isascii():
        raise ActionRefused(gettext("Write the host in ASCII, such as xn--bcher-kva.example."))
    if not parts.hostname:
        raise ActionRefused(gettext("The address has no host."))
    if parts.fragment or "#" in parts.path:
        raise ActionRefused(gettext("Leave out the part of the address that begins with #."))


def _no_place_in_host() -> str:
    return gettext(
        "An argument can’t be part of the host. Otherwise a model could choose who gets the request."
    )


def origin(address: str) -> tuple[str, str, int]:
    """Scheme, host and port of a valid address: what its headers are for."""
    parts = urlsplit(address)
    port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").lower(), port


def read_headers(text: str) -> dict[str, str]:
    """The headers in a text with one ``Name: value`` a line. Raises ``ActionRefused`` with the reason, which has
    no value of a header."""
    if len(text) > HEADERS_LENGTH:
        limit = count(HEADERS_LENGTH)
        raise ActionRefused(
            gettext("The headers are longer than %(limit)s characters.") % {"limit": limit}
        )
    return server_headers.read_headers(text, is_reserved=RESERVED_HEADERS.__contains__)


def arguments_of(schema: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """The arguments of a valid schema, by name."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: rule if isinstance(rule, dict) else {} for name, rule in properties.items()}


def required_in(schema: Mapping[str, object]) -> list[str]:
    required = schema.get("required")
    return (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )


def check_places(address: str, schema: Mapping[str, object]) -> None:
    """Raises ``ActionRefused`` if the address has a place for something that isn't always there."""
    known = arguments_of(schema)
    places = places_in(address)
    missing = [name for name in places if name not in known]
    if missing:
        text = gettext("The address has a place for {%(name)s}, but there is no such argument.")
        raise ActionRefused(text % {"name": missing[0]})
    optional = [name for name in places if name not in required_in(schema)]
    if optional:
        text = gettext("The argument %(name)s is part of the address, so list it under “required”.")
        raise ActionRefused(text % {"name": optional[0]})
