"""Our own events as clients of LM Studio's API read them, and as another Tributary reads them back.

Those clients know nineteen events about one answer. So an alternative to the answer has event names
of its own, a refusal is a message, and every call names a provider. Members that they don't know
let another Tributary restore the log.
"""

from collections.abc import Mapping

import msgspec

from chat.events import (
    EVENT_TYPES,
    ChatEnd,
    Event,
    ItemEvent,
    JsonObject,
    MessageEnd,
    MessageStart,
    MetaUpdate,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    Result,
    ToolCallArguments,
    ToolCallStart,
    ToolCallSuccess,
)

# Begins the names of events about a further choice.
ALTERNATIVE = "alternative."
# The kind of reasoning may become known only after the reasoning has begun.
REASONING_KIND = "reasoning.update"
# LM Studio names the provider of every call, but a server that imitates it may not.
UNKNOWN_PROVIDER: JsonObject = {"type": "unknown"}
_NAMES_PROVIDER = (ToolCallStart, ToolCallArguments, ToolCallSuccess)
# The id is in `chat.end`, and the upstream's result is not the one of this API.
_NOT_SENT = ("response_id", "upstream_result")

# --- for clients --------------------------------------------------------------------------


class ClientEvents:
    """Converts the events of one answer, in their order."""

    def __init__(self) -> None:
        # The item of the refusal that is being sent as a message, by choice.
        self._refusals: dict[int, int] = {}
        # The reasoning that has begun, by choice and item.
        self._reasoning: set[tuple[int, int]] = set()

    def convert(self, event: Event) -> list[JsonObject]:
        """At least one event. The last one is ``event`` itself; those before it end and begin
        messages around refusals, which have no events for that."""
        around = [self._end_refusal(choice, event) for choice in self._refused_before(event)]
        if not isinstance(event, RefusalDelta):
            return [*around, self._renamed(event)]
        if event.choice not in self._refusals:
            self._refusals[event.choice] = event.item
            start = MessageStart(seq=event.seq, t=event.t, item=event.item, choice=event.choice)
            around.append({**_members(start), "refusal": True})
        name = _name("message.delta", event.choice)
        return [*around, {**_members(event), "type": name, "refusal": True}]

    def _renamed(self, event: Event) -> JsonObject:
        members = _members(event)
        if isinstance(event, ReasoningStart):
            if (event.choice, event.item) in self._reasoning:
                members["type"] = _name(REASONING_KIND, event.choice)
            self._reasoning.add((event.choice, event.item))
        elif isinstance(event, ReasoningEnd):
            self._reasoning.discard((event.choice, event.item))
        return members

    def _refused_before(self, event: Event) -> list[int]:
        """The choices in which the refusal is complete when this event comes."""
        if isinstance(event, ChatEnd):
            return sorted(self._refusals)
        if not isinstance(event, ItemEvent):
            return []
        refused = self._refusals.get(event.choice, event.item)
        return [event.choice] if refused != event.item else []

    def _end_refusal(self, choice: int, event: Event) -> JsonObject:
        item = self._refusals.pop(choice)
        end = MessageEnd(seq=event.seq, t=event.t, item=item, choice=choice)
        return {**_members(end), "refusal": True}


def client_result(result: Result) -> JsonObject:
    """The result with items that LM Studio's clients know."""
    ext = msgspec.structs.replace(result.ext, upstream_result=None)
    members: JsonObject = msgspec.to_builtins(msgspec.structs.replace(result, ext=ext))
    for answer in (members, *members["ext"].get("alternatives", ())):
        answer["output"] = [_client_item(item) for item in answer["output"]]
    return members


def _members(event: Event) -> JsonObject:
    members: JsonObject = msgspec.to_builtins(event)
    members["type"] = _name(members["type"], members.get("choice", 0))
    if isinstance(event, _NAMES_PROVIDER):
        members.setdefault("provider_info", UNKNOWN_PROVIDER)
    elif isinstance(event, MetaUpdate):
        members["values"] = {k: v for k, v in event.values.items() if k not in _NOT_SENT}
    elif isinstance(event, ChatEnd):
        members["result"] = client_result(event.result)
    return members


def _name(name: str, choice: int) -> str:
    return f"{ALTERNATIVE}{name}" if choice else name


def _client_item(item: JsonObject) -> JsonObject:
    if item["type"] == "refusal":
        return {**item, "type": "message", "refusal": True}
    if item["type"] == "tool_call":
        return {"provider_info": UNKNOWN_PROVIDER, **item}
    return item


# --- from another Tributary -----------------------------------------------------------------

# The log has no event for the beginning and the end of a refusal.
_REFUSAL_NAMES: Mapping[str, str | None] = {
    "message.start": None,
    "message.delta": "refusal.delta",
    "message.end": None,
}


def is_client_event(data: JsonObject) -> bool:
    """Tells events of a Tributary from LM Studio's, which have neither ``run`` nor ``seq``."""
    name = str(data.get("type")).removeprefix(ALTERNATIVE)
    is_known = name in EVENT_TYPES or name == REASONING_KIND
    return is_known and "run" in data and "seq" in data


def as_logged(data: JsonObject) -> JsonObject | None:
    """The event as the log of that Tributary has it; ``None`` if the log has no such event."""
    logged = {name: value for name, value in data.items() if name not in ("run", "refusal")}
    name: str | None = str(data["type"]).removeprefix(ALTERNATIVE)
    if name == REASONING_KIND:
        name = "reasoning.start"
    elif data.get("refusal") is True:
        name = _REFUSAL_NAMES.get(str(name), name)
    if logged.get("provider_info") == UNKNOWN_PROVIDER:
        del logged["provider_info"]
    return None if name is None else {**logged, "type": name}
