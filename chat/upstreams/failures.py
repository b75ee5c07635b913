"""Failures between this application and a server, each in one fixed sentence."""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
from django.utils.translation import gettext_noop
from msgspec.structs import replace

from chat.dialects import errors
from chat.events import ErrorInfo, ErrorKind, JsonObject
from chat.upstreams.addresses import AddressRefused
from chat.upstreams.transport import CutShort


@dataclass(frozen=True, slots=True)
class Failure:
    """``is_retryable``: the same request may succeed later."""

    kind: ErrorKind
    message: str
    is_retryable: bool = False


# The key is ``ErrorInfo.code``: a word for logs, the connection test and tests. The messages are
# stored in English, and translated where they are shown.
FAILURES: dict[str, Failure] = {
    "bad_url": Failure(
        "bad_request",
        gettext_noop(
            "The server’s address isn’t a valid URL. It should look like http://host:port/path, "
            "without a user name, password, query or fragment."
        ),
    ),
    "bad_header": Failure(
        "bad_request",
        gettext_noop(
            "The request couldn’t be sent because the API key or a header contains a character "
            "that HTTP doesn’t allow. Enter the key again, without spaces or line breaks."
        ),
    ),
    "address_refused": Failure(
        "network",
        gettext_noop(
            "Connections to this address aren’t allowed. Ask the operator to allow its network "
            "in the setting UPSTREAM_PRIVATE_NETWORKS."
        ),
    ),
    "unknown_host": Failure(
        "network",
        gettext_noop("The server’s host name wasn’t found. Check the spelling of its address."),
        True,
    ),
    "connection_refused": Failure(
        "network",
        gettext_noop(
            "The connection was refused: nothing is listening on that port. Check that the server "
            "is running and that the port is right."
        ),
        True,
    ),
    "unreachable": Failure(
        "network",
        gettext_noop(
            "The server couldn’t be reached. Check that it is running and reachable from here."
        ),
        True,
    ),
    "connect_timeout": Failure(
        "network",
        gettext_noop(
            "The server didn’t accept the connection in time. Check that it is running and that "
            "no firewall blocks it."
        ),
        True,
    ),
    "certificate_self_signed": Failure(
        "network",
        gettext_noop(
            "The server’s certificate is self-signed or from an unknown authority. Ask the "
            "operator to add that authority, or use http inside a trusted network."
        ),
    ),
    "certificate_name": Failure(
        "network",
        gettext_noop(
            "The server’s certificate is for another host name. Use the name in the certificate."
        ),
    ),
    "certificate_expired": Failure(
        "network",
        gettext_noop("The server’s certificate has expired. It must be renewed on the server."),
    ),
    "certificate": Failure(
        "network", gettext_noop("The server’s certificate couldn’t be verified.")
    ),
    "tls": Failure(
        "network",
        gettext_noop(
            "No encrypted connection could be made. If the server uses plain http, start its "
            "address with http://."
        ),
    ),
    "proxy": Failure(
        "network", gettext_noop("The egress proxy couldn’t connect to the server."), True
    ),
    "write_timeout": Failure(
        "timeout",
        gettext_noop("The server stopped reading the request. Try again, or shorten the message."),
    ),
    "head_timeout": Failure(
        "timeout",
        gettext_noop("The server didn’t start answering in time. It may be busy; try again later."),
    ),
    "idle_timeout": Failure(
        "idle_timeout",
        gettext_noop("The server stopped sending in the middle of the answer. Try again."),
    ),
    "closed_early": Failure(
        "network",
        gettext_noop("The server closed the connection without an answer. Try again."),
    ),
    "cut": Failure(
        "cut", gettext_noop("The connection was lost in the middle of the answer. Try again.")
    ),
    "not_http": Failure(
        "protocol",
        gettext_noop(
            "The answer isn’t valid HTTP. Check the port, and whether the server expects http:// "
            "or https://."
        ),
    ),
    "encoded": Failure(
        "protocol",
        gettext_noop("The server sent a compressed answer, which isn’t supported."),
    ),
    "redirect": Failure(
        "protocol",
        gettext_noop(
            "The server redirects to another address, and redirects aren’t followed. Enter the "
            "final address."
        ),
    ),
    "page": Failure(
        "protocol",
        gettext_noop(
            "The server answered with a web page instead of data. This is probably not the "
            "address of its API; many API addresses end in /v1."
        ),
    ),
    "empty": Failure(
        "protocol",
        gettext_noop("The server sent an empty answer. Check the address and the API type."),
    ),
    "unreadable": Failure(
        "protocol",
        gettext_noop("The answer couldn’t be read. Check the address and the API type."),
    ),
    "too_large": Failure("too_large", gettext_noop("The answer is larger than the limit.")),
    "unknown": Failure("unknown", gettext_noop("The request failed for an unknown reason.")),
}

# OpenSSL's verification codes, as found in x509_vfy.h.
_CERTIFICATE_CODES = {
    10: "certificate_expired",
    18: "certificate_self_signed",
    19: "certificate_self_signed",
    20: "certificate_self_signed",
    21: "certificate_self_signed",
    62: "certificate_name",
    64: "certificate_name",
}
# httpcore reports a connection that was closed early only by this text; see ``h11``'s connection.
_STOCK_CUT_TEXTS = ("peer closed connection", "Server disconnected")


class UpstreamError(Exception):
    """An error of the server, described for people in ``info``."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.code or info.kind)
        self.info = info


class UpstreamRefused(UpstreamError):
    """An error before any output.

    ``never_accepted``: the server has certainly not started to work on the request (no connection
    was made, or it answered 429 or 503), so sending it again cannot do anything twice. Whether that
    may help is ``info.retryable``. ``facts`` are what the answer's headers told, if there was one.
    """

    def __init__(
        self, info: ErrorInfo, *, never_accepted: bool, facts: JsonObject | None = None
    ) -> None:
        super().__init__(info)
        self.never_accepted = never_accepted
        self.facts: JsonObject = facts or {}


class UpstreamBroken(UpstreamError):
    """The answer broke off after it had begun; what came before has been delivered."""


def failure(code: str, *, status: int | None = None) -> ErrorInfo:
    """The error for one of the codes in ``FAILURES``, which say whether to try again."""
    found = FAILURES[code]
    info = errors.error_of(found.kind, found.message, code=code)
    return replace(info, status=status, retryable=found.is_retryable)


def error_of(exception: BaseException, *, has_output: bool) -> ErrorInfo:
    """The error for an exception of the HTTP layer. It never contains the exception's own text,
    which may contain an address or a key. ``has_output``: the body of the answer had begun."""
    if isinstance(exception, UpstreamError):
        return exception.info
    return failure(_code_of(exception, has_output=has_output))


def was_never_sent(exception: BaseException) -> bool:
    """Returns whether no byte of the request was sent."""
    return isinstance(
        exception,
        httpx.ConnectError
        | httpx.ConnectTimeout
        | httpx.PoolTimeout
        | httpx.ProxyError
        | httpx.LocalProtocolError
        | httpx.UnsupportedProtocol
        | httpx.InvalidURL,
    )


# Kinds of exceptions in the order of the checks, with the code before the answer has begun, and the
# code after.
_CODES: tuple[tuple[tuple[type[BaseException], ...], str, str], ...] = (
    ((httpx.ConnectTimeout, httpx.PoolTimeout), "connect_timeout", "connect_timeout"),
    ((httpx.WriteTimeout,), "write_timeout", "write_timeout"),
    ((httpx.TimeoutException, TimeoutError), "head_timeout", "idle_timeout"),
    ((httpx.ProxyError,), "proxy", "proxy"),
    ((httpx.UnsupportedProtocol, httpx.InvalidURL), "bad_url", "bad_url"),
    ((httpx.LocalProtocolError,), "bad_header", "bad_header"),
    ((httpx.RemoteProtocolError,), "not_http", "not_http"),
    ((httpx.DecodingError,), "encoded", "encoded"),
)


def _code_of(exception: BaseException, *, has_output: bool) -> str:
    if isinstance(exception, httpx.ConnectError):
        return _connect_code(exception)
    if isinstance(exception, httpx.TransportError) and _is_cut(exception):
        return "cut" if has_output else "closed_early"
    for kinds, before, after in _CODES:
        if isinstance(exception, kinds):
            return after if has_output else before
    return "unknown"


def _is_cut(exception: httpx.TransportError) -> bool:
    if isinstance(exception, httpx.NetworkError | CutShort):
        return True
    return isinstance(exception, httpx.RemoteProtocolError) and str(exception).startswith(
        _STOCK_CUT_TEXTS
    )


def _connect_code(exception: BaseException) -> str:
    for cause in _causes(exception):
        match cause:
            case AddressRefused():
                return "address_refused"
            case socket.gaierror():
                return "unknown_host"
            case ConnectionRefusedError():
                return "connection_refused"
            case ssl.SSLCertVerificationError():
                return _CERTIFICATE_CODES.get(cause.verify_code, "certificate")
            case ssl.SSLError() | ConnectionResetError() | ConnectionAbortedError():
                return "tls"
    return "unreachable"


def _causes(exception: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, through groups, each once."""
    waiting, seen = [exception], set[int]()
    while waiting:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        inner = found.exceptions if isinstance(found, BaseExceptionGroup) else ()
        waiting += [
            cause for cause in (*inner, found.__cause__, found.__context__) if cause is not None
        ]
