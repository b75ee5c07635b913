"""Where a call goes, read from the rows at the moment of the call."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from chat.core.encryption import DecryptionError
from chat.models import OWN_KINDS, Tool, ToolCall, ToolKind, ToolRequest
from chat.tools.http_definition import arguments_of
from chat.tools.kinds import Address, CallFailed

LOCKED = gettext_noop(
    "The stored headers of this tool can’t be decrypted. Ask an administrator to enter them again."
)
NO_ADDRESS = gettext_noop("This tool has no address.")


def address_of(call: ToolCall) -> Address:
    """Raises ``CallFailed``."""
    if call.kind in OWN_KINDS:
        return Address(
            url="", name=str(call.question.body.get("tool") or ""), run=call.question.run_id
        )
    tool = call.tool
    assert tool is not None
    try:
        if tool.kind in (ToolKind.HTTP, ToolKind.SEARCH):
            return _address_of_request(tool)
        if tool.kind == ToolKind.PAGE:
            # The address is an argument of the call.
            return Address(url="", name=tool.name, method="GET")
        if tool.server is not None:
            # An account is sent without a key of the team.
            headers = {} if tool.is_personal else tool.server.open_headers()
            return Address(
                url=tool.server.address,
                headers=headers,
                name=tool.remote_name,
                schema=tool.schema,
            )
    except DecryptionError:
        raise CallFailed(LOCKED) from None
    raise CallFailed(NO_ADDRESS)


def _address_of_request(tool: Tool) -> Address:
    request = ToolRequest.objects.filter(tool=tool).first()
    if request is None:
        raise CallFailed(NO_ADDRESS)
    # Its encryption names the tool.
    request.tool = tool
    is_open = tool.schema.get("additionalProperties") is True
    return Address(
        url=request.address,
        headers=request.open_headers(),
        method=request.method,
        name=tool.name,
        service=request.service,
        arguments=None if is_open else arguments_of(tool.schema),
    )
