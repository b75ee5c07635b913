"""Elicitation: what a server asks people in the middle of a call, and their answers as the protocol has them."""

from __future__ import annotations

from collections.abc import Mapping

import mcp_types as types
import msgspec
from pydantic import ValidationError

from chat.models import InputSource
from chat.questions.input_schema import UnsupportedSchema, fields_of
from chat.tools.kinds import AskedInput, CallFailed, InputNeeded, InputReply
from chat.tools.mcp.listing import SCHEMA_BYTES, clean_json, clean_text
from chat.tools.mcp.sentences import BAD_INPUT, NOT_OFFERED, STATE_TOO_LARGE, TOO_MUCH_INPUT

# Requests that a server may make at once.
MOST_REQUESTS = 10
MESSAGE_LENGTH = 4000
ADDRESS_LENGTH = 4000
KEY_LENGTH = 200
# Bytes of the state that a server leaves with us. It is kept until somebody answers.
STATE_BYTES = 64 * 1024


def needed_by(result: types.InputRequiredResult) -> InputNeeded:
    """Raises ``CallFailed`` for what is not offered, or is no form."""
    state = result.request_state
    if state is not None and len(state.encode("utf-8", "replace")) > STATE_BYTES:
        raise CallFailed(STATE_TOO_LARGE)
    return InputNeeded(
        asked=asked_in(result.input_requests or {}), source=InputSource.RESULT, state=state
    )


def asked_in(requests: types.InputRequests) -> list[AskedInput]:
    """Raises ``CallFailed``."""
    if len(requests) > MOST_REQUESTS:
        raise CallFailed(TOO_MUCH_INPUT)
    return [_asked(key, request) for key, request in requests.items()]


def _asked(key: str, request: types.InputRequest) -> AskedInput:
    if not isinstance(request, types.ElicitRequest):
        raise CallFailed(NOT_OFFERED)
    if not key or len(key) > KEY_LENGTH or clean_text(key) != key:
        raise CallFailed(BAD_INPUT)
    return asked_by(request.params, key=key)


def asked_by(params: types.ElicitRequestParams, *, key: str = "") -> AskedInput:
    """Raises ``CallFailed``."""
    message = clean_text(params.message).strip()[:MESSAGE_LENGTH]
    if isinstance(params, types.ElicitRequestURLParams):
        url = params.url.strip()
        if not url or len(url) > ADDRESS_LENGTH:
            raise CallFailed(BAD_INPUT)
        return AskedInput(key=key, message=message, url=clean_text(url))
    schema = clean_json(params.requested_schema)
    if len(msgspec.json.encode(schema)) > SCHEMA_BYTES:
        raise CallFailed(TOO_MUCH_INPUT)
    try:
        fields_of(schema)
    except UnsupportedSchema as error:
        raise CallFailed(str(error)) from None
    # A form without fields is a question with yes or no, and an empty schema means an address.
    return AskedInput(key=key, message=message, schema=schema or {"type": "object"})


def needed_before(error: types.ErrorData) -> InputNeeded | None:
    """The addresses that somebody has to open before the call is made again (error −32042 of version 2025-11-25).
    Raises ``CallFailed``."""
    try:
        data = types.ElicitationRequiredErrorData.model_validate(error.data)
    except ValidationError:
        return None
    if not data.elicitations:
        return None
    if len(data.elicitations) > MOST_REQUESTS:
        raise CallFailed(TOO_MUCH_INPUT)
    asked = [asked_by(each, key=str(at)) for at, each in enumerate(data.elicitations)]
    return InputNeeded(asked=asked, source=InputSource.REFUSAL)


def result_of(reply: InputReply) -> types.ElicitResult:
    """The content goes with an accepted form only."""
    has_content = reply.action == "accept" and reply.is_form
    return types.ElicitResult(action=reply.action, content=reply.content if has_content else None)


def responses_of(replies: Mapping[str, InputReply]) -> types.InputResponses | None:
    return {key: result_of(reply) for key, reply in replies.items()} or None
