"""What can go wrong between this application and a server, each in one fixed sentence."""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from chat.events import ErrorInfo, ErrorKind, JsonObject
from chat.upstreams.addresses import REFUSED_TEXT, AddressRefused
from chat.upstreams.transport import CutShort


@dataclass(frozen=True, slots=True)
class Failure:
    """``is_retryable``: the same request may succeed later."""

    kind: ErrorKind
    message: str
    is_retryable: bool = False


# The key is ``ErrorInfo.code``: a word for logs, the connection test and tests.
FAILURES: dict[str, Failure] = {
    "bad_url": Failure(
        "bad_request",
        "The server's address is not a usable URL. It looks like http://host:port/path, without "
        "user name, password, query or fragment.",
    ),
    "bad_header": Failure(
        "bad_request",
        "The request could not be sent: the key, or a header, holds a character that HTTP does "
        "not allow. Enter the key again, without spaces or line breaks around it.",
    ),
    "address_refused": Failure(
        "network",
        f"{REFUSED_TEXT} The operator allows networks in the setting UPSTREAM_PRIVATE_NETWORKS.",
    ),
    "unknown_host": Failure(
        "network", "The server's name could not be found. Check the spelling of its address.", True
    ),
    "connection_refused": Failure(
        "network",
        "The connection was refused: nothing listens at that port. Check that the server is "
        "running and that the port is right.",
        True,
    ),
    "unreachable": Failure(
        "network",
        "The server could not be reached. Check that it is running and reachable from here.",
        True,
    ),
    "connect_timeout": Failure(
        "network",
        "The server did not accept the connection in time. Check that it is running and that "
        "no firewall is in between.",
        True,
    ),
    "certificate_self_signed": Failure(
        "network",
        "The server's certificate is self-signed or from an authority that is not known here. "
        "Have the operator add that authority, or use http inside a trusted network.",
    ),
    "certificate_name": Failure(
        "network",
        "The server's certificate is for another name. Use the name that the certificate is for.",
    ),
    "certificate_expired": Failure(
        "network", "The server's certificate has expired. It has to be renewed there."
    ),
    "certificate": Failure("network", "The server's certificate could not be verified."),
    "tls": Failure(
        "network",
        "No encrypted connection could be made. If the server speaks plain http, begin its "
        "address with http://.",
    ),
    "proxy": Failure("network", "The egress proxy did not make the connection.", True),
    "write_timeout": Failure(
        "timeout", "The server stopped reading the request. Try again, or send less."
    ),
    "head_timeout": Failure(
        "timeout", "The server did not begin to answer in time. It may be busy; try again later."
    ),
    "idle_timeout": Failure(
        "idle_timeout", "The server fell silent in the middle of the answer. Try again."
    ),
    "closed_early": Failure(
        "network", "The server closed the connection without an answer. Try again."
    ),
    "cut": Failure("cut", "The connection broke off in the middle of the answer. Try again."),
    "not_http": Failure(
        "protocol",
        "The answer is not valid HTTP. Check the port, and whether the address begins with "
        "http:// or https:// as the server expects.",
    ),
    "encoded": Failure(
        "protocol", "The server sent a compressed answer, which was not asked for and is not read."
    ),
    "redirect": Failure(
        "protocol",
        "The server redirects to another address, and redirects are not followed. Enter the "
        "final address.",
    ),
    "page": Failure(
        "protocol",
        "The server answered with a web page instead of data. The address is probably not that "
        "of the API; many end in /v1.",
    ),
    "empty": Failure(
        "protocol", "The server sent an empty answer. Check the address and the dialect."
    ),
    "unreadable": Failure(
        "protocol", "The answer could not be understood. Check the address and the dialect."
    ),
    "too_large": Failure("too_large", "The answer is larger than what is read of one."),
    "unknown": Failure("unknown", "The request failed for a reason that is not known here."),
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
    """Something went wrong at the server; ``info`` says what, in words for people."""

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
    """The error for one of the codes in ``FAILURES``."""
    found = FAILURES[code]
    return ErrorInfo(
        type="invalid_request" if found.kind == "bad_request" else "unknown",
        message=found.message,
        code=code,
        kind=found.kind,
        status=status,
        retryable=found.is_retryable,
    )


def error_of(exception: BaseException, *, has_output: bool) -> ErrorInfo:
    """The error for an exception of the HTTP layer. It never contains the exception's own text,
    which may contain an address or a key. ``has_output``: the body of the answer had begun."""
    if isinstance(exception, UpstreamError):
        return exception.info
    return failure(_code_of(exception, has_output=has_output))


def was_never_sent(exception: BaseException) -> bool:
    """Whether no byte of the request was sent."""
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
