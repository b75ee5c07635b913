"""A conversation as the ``input`` of a Responses request."""

from collections.abc import Iterable, Mapping

import msgspec

from chat.dialects.base import (
    AssistantTurn,
    Document,
    Image,
    Prompt,
    Reply,
    UserTurn,
    data_url,
    recordings,
)
from chat.dialects.history import NO_ANSWER, item_text, replies_text
from chat.dialects.stream import object_of, text_of
from chat.events import JsonObject, ToolCallItem, is_run_by_client

NOT_RUN = "This call was not run."
# The API refuses longer ids, and other servers create such.
_CALL_ID_CHARACTERS = 64

# Calls that we answer, and the type of their outputs.
_OUTPUT_TYPES: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}


def newest_items(prompt: Prompt) -> list[JsonObject]:
    """The items after the answer that the server stores as ``previous_response_id``: results of its
    calls, replies to its requests, a user's message. ``None`` if that cannot be expressed."""
    position = max(
        (n for n, turn in enumerate(prompt.turns) if isinstance(turn, AssistantTurn)), default=None
    )
    if position is None:
        return []
    last = prompt.turns[position]
    assert isinstance(last, AssistantTurn)
    items = [*_results(last, native_items(last), answers_all=True), *_approvals(last)]
    if any(item["type"] == "computer_call_output" for item in items):
        # A computer call needs a screenshot, which nobody took.
        return []
    for turn in prompt.turns[position + 1 :]:
        if isinstance(turn, UserTurn):
            items.append(_question(turn))
    return items


def whole_items(prompt: Prompt) -> list[JsonObject]:
    """The conversation from its beginning. Items of the same server are sent back as they came."""
    items: list[JsonObject] = []
    lost = _lost_programs(prompt)
    for turn in prompt.turns:
        if isinstance(turn, UserTurn):
            items.append(_question(turn))
            continue
        kept = _kept(turn, lost)
        items += kept or _rebuilt(turn, len(items))
        if turn.replies and not kept:
            # Another upstream had asked, so its questions and the replies are sent as text.
            items.append(_message("user", replies_text(turn)))
    return _from_summary(items)


def _from_summary(items: list[JsonObject]) -> list[JsonObject]:
    """The newest summary stands for everything before it."""
    newest = max(
        (n for n, item in enumerate(items) if item["type"] == "compaction"),
        default=0,
    )
    return items[newest:]


def native_items(turn: AssistantTurn) -> list[JsonObject]:
    native = turn.result.ext.native
    if not turn.is_native or not isinstance(native, list):
        return []
    return [item for item in native if isinstance(item, dict) and text_of(item, "type")]


# --- a user's message ----------------------------------------------------------------------


def _message(role: str, content: object) -> JsonObject:
    return {"type": "message", "role": role, "content": content}


def _question(turn: UserTurn) -> JsonObject:
    attached: list[JsonObject] = [
        *(
            {"type": "input_image", "image_url": data_url(image), "detail": "auto"}
            for image in turn.parts_of(Image)
        ),
        *(
            {"type": "input_file", "filename": file.name, "file_data": data_url(file)}
            for file in turn.parts_of(Document)
        ),
        *(
            {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
            for kind, data in recordings(turn)
        ),
    ]
    if not attached:
        return _message("user", turn.text)
    texts = [{"type": "input_text", "text": turn.text}] if turn.text else []
    return _message("user", [*texts, *attached])


# --- an answer of the same server -------------------------------------------------------------


def _lost_programs(prompt: Prompt) -> set[str]:
    """The programs that will have no result: that of an answer which goes on may come."""
    turns = list(prompt.turns)
    while prompt.goes_on and turns and isinstance(turns[-1], AssistantTurn):
        turns.pop()
    ids: dict[str, set[str]] = {"program": set(), "program_output": set()}
    for among, kind in ((turns, "program"), (prompt.turns, "program_output")):
        for turn in among:
            if isinstance(turn, AssistantTurn):
                items = native_items(turn)
                ids[kind] |= {text_of(item, "call_id") for item in items if item["type"] == kind}
    return ids["program"] - ids["program_output"] - {""}


def _kept(turn: AssistantTurn, lost: set[str]) -> list[JsonObject]:
    """The items as they came, except those that would be refused: calls and requests without an
    answer, programs that are ``lost`` and their calls, and reasoning that the server cannot read
    or that nothing follows."""
    native = [
        item
        for item in native_items(turn)
        if not lost & {text_of(item, "call_id"), text_of(object_of(item, "caller"), "caller_id")}
    ]
    answered = _answered(turn) | {
        text_of(item, "call_id") for item in native if item["type"].endswith("_output")
    }
    replied = {reply.ask_id for reply in turn.replies}
    kept: list[JsonObject] = []
    waiting: list[JsonObject] = []
    for item in native:
        if item["type"] == "reasoning":
            if item.get("encrypted_content") or item.get("content"):
                waiting.append(item)
        elif _may_go_back(item, answered, replied):
            kept += [*waiting, item]
            waiting = []
        else:
            waiting = []
    return [*kept, *_results(turn, kept, answers_all=False), *_approvals(turn)] if kept else []


def _may_go_back(item: JsonObject, answered: set[str], replied: set[str]) -> bool:
    kind = item["type"]
    if kind == "mcp_approval_request":
        return text_of(item, "id") in replied
    if kind == "message":
        return bool(item.get("content"))
    if kind in _OUTPUT_TYPES and not _is_hosted(item):
        return text_of(item, "call_id") in answered
    return True


def _is_hosted(item: JsonObject) -> bool:
    """Returns whether the server has run this call itself."""
    environment = text_of(object_of(item, "environment"), "type")
    return item["type"] == "shell_call" and environment != "local"


def _answered(turn: AssistantTurn) -> set[str]:
    return {call.call_id for call in _calls(turn) if call.call_id and call.output is not None}


def _calls(turn: AssistantTurn) -> Iterable[ToolCallItem]:
    return (item for item in turn.result.output if isinstance(item, ToolCallItem))


def _results(
    turn: AssistantTurn, native: list[JsonObject], *, answers_all: bool
) -> list[JsonObject]:
    """The results of the calls among the items, in their order. A server that continues from its
    own history requires one for every call, so with ``answers_all`` those that nobody ran are
    answered too."""
    known = {call.call_id: call for call in _calls(turn) if call.output is not None}
    has_output = {text_of(item, "call_id") for item in native if item["type"].endswith("_output")}
    results: list[JsonObject] = []
    for item in native:
        call_id = text_of(item, "call_id")
        is_ours = item["type"] in _OUTPUT_TYPES and not _is_hosted(item)
        if is_ours and call_id not in has_output and (answers_all or call_id in known):
            result = _result(item["type"], call_id, known.get(call_id))
            # A program of the server that called us finds its result by this.
            results.append({**result, "caller": item["caller"]} if item.get("caller") else result)
    return results


def _result(kind: str, call_id: str, call: ToolCallItem | None) -> JsonObject:
    text = NOT_RUN if call is None else call.output or ""
    is_good = call is not None and call.status != "failed"
    result: JsonObject = {"type": _OUTPUT_TYPES[kind], "call_id": call_id, "output": text}
    if kind == "local_shell_call":
        return {"type": result["type"], "id": call_id, "output": text}
    if kind == "apply_patch_call":
        return {**result, "status": "completed" if is_good else "failed"}
    if kind == "shell_call":
        outcome = {"type": "exit", "exit_code": 0 if is_good else 1}
        return {**result, "output": [{"stdout": text, "stderr": "", "outcome": outcome}]}
    return result


def _approvals(turn: AssistantTurn) -> list[JsonObject]:
    """The replies to requests for approval; only an explicit yes approves."""
    requests = {
        text_of(item, "id") for item in native_items(turn) if item["type"] == "mcp_approval_request"
    }
    return [_approval(reply) for reply in turn.replies if reply.ask_id in requests]


def _approval(reply: Reply) -> JsonObject:
    response: JsonObject = {
        "type": "mcp_approval_response",
        "approval_request_id": reply.ask_id,
        "approve": not reply.is_declined,
    }
    return {**response, "reason": reply.text} if reply.text else response


# --- an answer of another server ---------------------------------------------------------------


def _rebuilt(turn: AssistantTurn, position: int) -> list[JsonObject]:
    """The answer from its items: text, and calls of ours that have a result. Calls that another
    upstream ran itself become text, and its reasoning is left out."""
    items: list[JsonObject] = []
    results: list[JsonObject] = []
    for number, item in enumerate(turn.result.output):
        if isinstance(item, ToolCallItem) and is_run_by_client(item):
            if item.output is not None:
                call_id = (item.call_id or f"call_{position}_{number}")[:_CALL_ID_CHARACTERS]
                items.append(_wire_call(item, call_id))
                results.append(_result("function_call", call_id, item))
            continue
        text = item_text(item).strip()
        if text:
            items += [*results, _message("assistant", text)]
            results = []
    return [*items, *results] or [_message("assistant", NO_ANSWER)]


def _wire_call(call: ToolCallItem, call_id: str) -> JsonObject:
    """The arguments are sent back as they were written; free text becomes the one argument that it
    is."""
    is_text = call.provider_info is not None and call.provider_info.type == "custom"
    raw = None if is_text else call.arguments_raw
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": call.tool,
        "arguments": raw or msgspec.json.encode(call.arguments).decode(),
    }
