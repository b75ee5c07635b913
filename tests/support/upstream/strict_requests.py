"""The requests that each API accepts, as its documentation says. Anything else is refused, with the reason.

Only the members that Tributary sends are listed: a new one is looked up in the documentation before it is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tests.support.upstream.strict_parts import (
    ChatContent,
    LmInput,
    MessagesBlock,
    NotEmpty,
    ResponsesContent,
)

FunctionName = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
# The limit of a request to the Messages API; other providers don't document theirs.
MESSAGES_BYTES = 32 * 1024 * 1024


class _Body(Struct, forbid_unknown_fields=True, kw_only=True):
    """A member that the API doesn't know is an error."""


class _Schema(Struct):
    type: Literal["object"]


class _Function(_Body):
    name: FunctionName
    parameters: _Schema
    description: str = ""
    strict: bool = False


class _WrappedFunction(_Body):
    type: Literal["function"]
    function: _Function


# --- chat completions -----------------------------------------------------------------------------


class _CallFunction(_Body):
    name: FunctionName
    arguments: str


class _ChatCall(_Body):
    id: NotEmpty
    type: Literal["function"]
    function: _CallFunction


class _ChatMessage(_Body, tag_field="role"):
    pass


class ChatSystem(_ChatMessage, tag="system"):
    content: NotEmpty


class ChatUser(_ChatMessage, tag="user"):
    content: ChatContent


class ChatAssistant(_ChatMessage, tag="assistant"):
    content: NotEmpty | None = None
    tool_calls: Annotated[list[_ChatCall], Meta(min_length=1)] | UnsetType = UNSET


class ChatTool(_ChatMessage, tag="tool"):
    tool_call_id: NotEmpty
    content: str
    name: str = ""


class _StreamOptions(_Body):
    include_usage: bool = False
    include_obfuscation: bool = True


class ChatRequest(_Body):
    model: NotEmpty
    messages: Annotated[list[ChatSystem | ChatUser | ChatAssistant | ChatTool], Meta(min_length=1)]
    stream: bool = False
    stream_options: _StreamOptions | UnsetType = UNSET
    tools: Annotated[list[_WrappedFunction], Meta(min_length=1)] | UnsetType = UNSET


def _check_chat(request: ChatRequest) -> None:
    open_calls: set[str] = set()
    for message in request.messages:
        if isinstance(message, ChatTool):
            _must(message.tool_call_id in open_calls, "a tool message must follow its call")
            open_calls.discard(message.tool_call_id)
            continue
        _must(not open_calls, "each call needs a tool message before the next message")
        if isinstance(message, ChatAssistant):
            calls = message.tool_calls or []
            _must(bool(message.content or calls), "an assistant message is empty")
            open_calls = {call.id for call in calls}
    _must(not open_calls, "each call needs a tool message")
    _must(isinstance(request.messages[-1], ChatUser | ChatTool), "nothing is left to answer")


class _SearchOptions(_Body):
    enabled: bool


class BitseekMessage(_Body):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_call_id: str = ""
    name: str = ""
    tool_calls: list[_ChatCall] = []


class BitseekRequest(_Body):
    messages: Annotated[list[BitseekMessage], Meta(min_length=1)]
    stream: bool = False
    tools: Annotated[list[_WrappedFunction], Meta(min_length=1)] | UnsetType = UNSET
    enableWebSearch: bool = False
    webSearch: _SearchOptions | UnsetType = UNSET


def _check_bitseek(request: BitseekRequest) -> None:
    for message in request.messages:
        _must(bool(message.content or message.tool_calls), "a message is empty")


class CompletionsRequest(_Body):
    model: NotEmpty
    prompt: NotEmpty
    max_tokens: Annotated[int, Meta(ge=1)] = 16
    stream: bool = False
    stream_options: _StreamOptions | UnsetType = UNSET
    stop: Annotated[list[NotEmpty], Meta(min_length=1, max_length=4)] | UnsetType = UNSET


# --- responses ------------------------------------------------------------------------------------


class _OutputText(_Body, tag_field="type", tag="output_text"):
    text: str
    annotations: list[Any]
    logprobs: list[Any] = []


class InputMessage(_Body):
    type: Literal["message"]
    role: Literal["user", "system", "developer"]
    content: ResponsesContent


class OutputMessage(_Body):
    type: Literal["message"]
    role: Literal["assistant"]
    content: NotEmpty | Annotated[list[_OutputText], Meta(min_length=1)]
    id: str = ""
    status: Literal["in_progress", "completed", "incomplete"] = "completed"


class FunctionCall(_Body):
    type: Literal["function_call"]
    call_id: Annotated[str, Meta(min_length=1, max_length=64)]
    name: FunctionName
    arguments: str
    id: str = ""
    status: Literal["in_progress", "completed", "incomplete"] = "completed"


class FunctionOutput(_Body):
    type: Literal["function_call_output"]
    call_id: Annotated[str, Meta(min_length=1, max_length=64)]
    output: str


class ResponsesTool(_Body, tag_field="type", tag="function"):
    name: FunctionName
    parameters: _Schema
    strict: bool
    description: str = ""


class ResponsesRequest(_Body):
    model: NotEmpty
    input: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    stream: bool = False
    store: bool = True
    include: list[Literal["reasoning.encrypted_content"]] = []
    previous_response_id: NotEmpty | UnsetType = UNSET
    instructions: NotEmpty | UnsetType = UNSET
    tools: Annotated[list[ResponsesTool], Meta(min_length=1)] | UnsetType = UNSET
    stream_options: _StreamOptions | UnsetType = UNSET


_ITEMS: Mapping[str, type[Struct]] = {
    "function_call": FunctionCall,
    "function_call_output": FunctionOutput,
}


def _check_responses(request: ResponsesRequest) -> None:
    calls: set[str] = set()
    for item in request.input:
        kind = OutputMessage if item.get("role") == "assistant" else InputMessage
        read = msgspec.convert(item, _ITEMS.get(item.get("type", ""), kind))
        if isinstance(read, FunctionCall):
            calls.add(read.call_id)
        if isinstance(read, FunctionOutput):
            is_known = read.call_id in calls or request.previous_response_id is not UNSET
            _must(is_known, "no tool call found for function call output")
            calls.discard(read.call_id)
    _must(not calls, "no tool output found for function call")


# --- messages -------------------------------------------------------------------------------------


class _ToolUse(_Body, tag_field="type", tag="tool_use"):
    id: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]+$")]
    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,128}$")]
    input: dict[str, Any]


class _ToolResult(_Body, tag_field="type", tag="tool_result"):
    tool_use_id: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]+$")]
    content: NotEmpty | UnsetType = UNSET
    is_error: bool = False


class _AnswerText(_Body, tag_field="type", tag="text"):
    text: NotEmpty
    citations: list[Any] | None = None


class _Thinking(_Body, tag_field="type", tag="thinking"):
    thinking: str
    signature: NotEmpty


class _Turn(_Body, tag_field="role"):
    pass


class MessagesUser(_Turn, tag="user"):
    content: Annotated[list[MessagesBlock | _ToolResult], Meta(min_length=1)]


class MessagesAssistant(_Turn, tag="assistant"):
    content: Annotated[list[_AnswerText | _ToolUse | _Thinking], Meta(min_length=1)]


class MessagesTool(_Body):
    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,128}$")]
    input_schema: _Schema
    description: str = ""


class MessagesRequest(_Body):
    model: NotEmpty
    max_tokens: Annotated[int, Meta(ge=1)]
    messages: Annotated[list[MessagesUser | MessagesAssistant], Meta(min_length=1)]
    stream: bool = False
    system: NotEmpty | UnsetType = UNSET
    tools: Annotated[list[MessagesTool], Meta(min_length=1)] | UnsetType = UNSET


def _check_messages(request: MessagesRequest) -> None:
    _must(isinstance(request.messages[0], MessagesUser), "the first message must be the user's")
    _must(isinstance(request.messages[-1], MessagesUser), "this model has no assistant prefill")
    calls: set[str] = set()
    for message in request.messages:
        for block in message.content:
            _must(bool(getattr(block, "text", "x").strip()), "text must contain non-whitespace")
        if isinstance(message, MessagesAssistant):
            calls = {block.id for block in message.content if isinstance(block, _ToolUse)}
            continue
        is_result = [isinstance(block, _ToolResult) for block in message.content]
        _must(is_result == sorted(is_result, reverse=True), "tool results must come first")
        results = [block for block in message.content if isinstance(block, _ToolResult)]
        _must({each.tool_use_id for each in results} == calls, "each tool use needs its result")
        calls = set()


# --- LM Studio ------------------------------------------------------------------------------------


class LmStudioRequest(_Body):
    model: NotEmpty
    input: LmInput
    stream: bool = False
    system_prompt: NotEmpty | UnsetType = UNSET
    previous_response_id: Annotated[str, Meta(pattern="^resp_")] | UnsetType = UNSET
    store: bool = True


# --- all of them ----------------------------------------------------------------------------------


def _nothing_more(request: Any) -> None:
    pass


_REQUESTS: Mapping[str, tuple[type[Struct], Callable[[Any], None]]] = {
    "openai_chat": (ChatRequest, _check_chat),
    # Chat completions with members of its own, none of which is a default.
    "xerotier": (ChatRequest, _check_chat),
    "bitseek": (BitseekRequest, _check_bitseek),
    "openai_completions": (CompletionsRequest, _nothing_more),
    "openai_responses": (ResponsesRequest, _check_responses),
    "anthropic_messages": (MessagesRequest, _check_messages),
    "lmstudio": (LmStudioRequest, _nothing_more),
}
DIALECTS: Sequence[str] = tuple(_REQUESTS)


class Refusal(Exception):
    """The request breaks a rule that its documentation says."""


def _must(holds: bool, rule: str) -> None:
    if not holds:
        raise Refusal(rule)


def refusal_of(dialect: str, body: bytes) -> str:
    """The reason why the API would answer the request with status 400; empty if it would not."""
    kind, check = _REQUESTS[dialect]
    if dialect == "anthropic_messages" and len(body) > MESSAGES_BYTES:
        return "the request is too large"
    try:
        check(msgspec.json.decode(body, type=kind))
    except (msgspec.DecodeError, msgspec.ValidationError, Refusal) as error:
        return str(error) or type(error).__name__
    return ""
