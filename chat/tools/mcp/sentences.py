"""Failures on the way to an MCP server, in sentences for people: stored in English, translated where they are shown."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2
import mcp_types as types
from django.utils.translation import gettext_noop
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from chat.core.text import without_hidden
from chat.tools.lost_calls import LOST, sentence_of
from chat.tools.mcp.transport import Traffic
from chat.upstreams.failures import FAILURES

# Characters that are shown of a message that the server sent.
MESSAGE_LENGTH = 500

SIGN_IN = gettext_noop(
    "The server asks for a sign-in. Let each person sign in, or add a key as a header, in its settings."
)
NO_SIGN_IN = gettext_noop("The server asks for none.")
KEY_ACCEPTED = gettext_noop("The server accepts the stored headers.")
KEY_REFUSED = gettext_noop("The server refused the request. Check the headers with its key.")
MORE_RIGHTS = gettext_noop(
    "The server wants more rights of the account: %(scopes)s. Connect the account again to allow them."
)
MORE_RIGHTS_OF_KEY = gettext_noop(
    "The server wants more rights: %(scopes)s. Check the headers with its key."
)
NOT_FOUND = gettext_noop("There is no MCP server at this address. Check the path of the address.")
REDIRECTS = gettext_noop(
    "The server redirects to another address, and redirects aren’t followed. Enter the final address."
)
BUSY = gettext_noop("The server gets too many requests, or is busy. Try again later.")
FAILED = gettext_noop("The server failed (HTTP %(status)s). Try again later.")
REFUSED = gettext_noop("The server refused the request (HTTP %(status)s).")
NOT_MCP = gettext_noop(
    "The answer isn’t MCP. Check the address, and that it is a server with streamable HTTP."
)
INVALID = gettext_noop("The server doesn’t follow the protocol: its answer isn’t valid.")
TOO_LATE = gettext_noop("The server didn’t answer in time. Try again later.")
NO_VERSION = gettext_noop("The server speaks only versions of MCP that aren’t supported.")
TOO_LARGE = gettext_noop("The tool ran, but its result is larger than the limit.")
BAD_RESULT = gettext_noop(
    "The tool ran, but its result isn’t valid: the server doesn’t follow the protocol."
)
NOT_OFFERED = gettext_noop(
    "The tool asks for something else than input of people, which isn’t offered to it."
)
BAD_INPUT = gettext_noop("The tool asks for input, but its request isn’t valid.")
TOO_MUCH_INPUT = gettext_noop("The tool asks for more input than fits into a form.")
STATE_TOO_LARGE = gettext_noop(
    "The tool asks for input, but what it wants kept meanwhile is larger than the limit."
)
TASK_GONE = gettext_noop("The server no longer knows the task that did the call.")
TASK_CANCELED = gettext_noop("The server canceled the task that did the call.")
TASK_FAILED = gettext_noop("The task that did the call failed.")
SAID = gettext_noop("The server says: %(message)s")

# With these, a call was refused before it ran, as with a redirect. Behind all others can be a proxy that gave up before
# the server did.
_REFUSED_STATUSES = (401, 403, 404, 405, 413, 415, 422, 429)
# Whatever the body says.
_UNDECIDED_STATUSES = (408, 499)
_BY_STATUS = {401: KEY_REFUSED, 403: KEY_REFUSED, 404: NOT_FOUND, 405: NOT_FOUND}
_BY_STATUS |= {429: BUSY, 503: BUSY}
# Codes that the library uses for its own errors, with texts about its inside.
_OF_THE_LIBRARY = (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.PARSE_ERROR)
_OF_THE_CONNECTION = (*_OF_THE_LIBRARY, types.UNSUPPORTED_PROTOCOL_VERSION)
_BY_KIND: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((TimeoutError,), TOO_LATE),
    ((httpx2.InvalidURL,), FAILURES["bad_url"].message),
    ((ValidationError, ValueError, RuntimeError), INVALID),
)
# Codes by which the library tells a status without a message of the protocol.
_STAND_INS = (types.METHOD_NOT_FOUND, types.INVALID_REQUEST, types.INTERNAL_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    text: str
    may_have_run: bool = False


def problem_of(error: BaseException, traffic: Traffic) -> Problem:
    """Why there was no answer, of a request that changes nothing."""
    if traffic.failure is not None:
        return Problem(text=traffic.failure.info.message)
    if traffic.status >= 300:
        return Problem(text=_of_status(traffic))
    if traffic.status and not traffic.has_message:
        return Problem(text=NOT_MCP)
    return Problem(text=_of_error(error))


def _of_error(error: BaseException) -> str:
    if isinstance(error, MCPError) and error.code not in _OF_THE_CONNECTION:
        return _said(error)
    found = next((text for kinds, text in _BY_KIND if isinstance(error, kinds)), NOT_MCP)
    is_version = isinstance(error, MCPError) and error.code == types.UNSUPPORTED_PROTOCOL_VERSION
    return NO_VERSION if is_version else found


def unfinished(error: BaseException, traffic: Traffic) -> Problem:
    """Why a call that was sent has no result."""
    if 300 <= traffic.status < 400 or traffic.status in _REFUSED_STATUSES:
        return Problem(text=_of_status(traffic))
    if traffic.failure is not None:
        if traffic.failure.info.code == "too_large" and 200 <= traffic.status < 300:
            return Problem(text=TOO_LARGE)
        return Problem(text=sentence_of(traffic.failure.info), may_have_run=True)
    if traffic.status >= 300:
        return Problem(text=_of_status(traffic), may_have_run=True)
    if traffic.status and not traffic.has_message:
        return Problem(text=NOT_MCP, may_have_run=True)
    return Problem(text=LOST, may_have_run=True)


def answered_error(error: MCPError, traffic: Traffic) -> str:
    """The server’s own words about a call that it did not do; empty if the library made the error."""
    is_undecided = traffic.status >= 500 or traffic.status in _UNDECIDED_STATUSES
    is_answer = traffic.was_sent and traffic.failure is None and traffic.has_message
    if not is_answer or is_undecided:
        return ""
    if error.code in _OF_THE_LIBRARY or _is_stand_in(error, traffic):
        return ""
    return _said(error)


def _is_stand_in(error: MCPError, traffic: Traffic) -> bool:
    """Returns whether the library made the error from the status, which says more."""
    return traffic.status in (401, 403) or (traffic.status >= 300 and error.code in _STAND_INS)


def _of_status(traffic: Traffic) -> str:
    if traffic.wants_sign_in:
        return SIGN_IN
    if found := _BY_STATUS.get(traffic.status):
        return found
    if traffic.status < 400:
        return REDIRECTS
    text = FAILED if traffic.status >= 500 else REFUSED
    return text % {"status": traffic.status}


def _said(error: MCPError) -> str:
    return said(error.message) or SAID % {"message": error.code}


def said(message: str) -> str:
    """A message of the server as a sentence; empty for an empty one."""
    text = without_hidden(" ".join(message.split()))[:MESSAGE_LENGTH]
    return SAID % {"message": text} if text else ""
