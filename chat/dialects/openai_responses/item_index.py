"""Output items of one response, created when first named and found by id, index or order."""

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import cast

from chat.dialects.openai_responses.calls import FAILED, CallState
from chat.dialects.openai_responses.hosted_tools import CALLS, PROGRAM, OutputState, result_text
from chat.dialects.openai_responses.items import (
    MessageState,
    OutputItem,
    Phase,
    ReasoningState,
    Surroundings,
)
from chat.dialects.openai_responses.values import arguments_in
from chat.dialects.reading import as_text
from chat.dialects.stream import objects_of, text_of, whole_of
from chat.events import AskQuestion, Json, JsonObject, ProviderInfo, ReplayData
from chat.events.translation import gettext_noop

ALLOW, DECLINE = "allow", "decline"
# How much of the arguments a question about an approval shows.
_SHOWN_ARGUMENT_CHARACTERS = 2000


class ToolListState(OutputItem):
    """The upstream asks an MCP server for its tools. The outcome is reported once, with the whole
    item, although an event of its own reports it before."""

    has_failed = False

    def report(self, phase: Phase, detail: Json = None) -> None:
        server = text_of(self._wire, "server_label") or "a server"
        label = f"Listing the tools of {server}"
        if phase == "failed":
            label = f"Couldn’t list the tools of {server}"
        self.step("mcp", "list_tools", phase, label, detail)

    def on_added(self, item: JsonObject) -> None:
        self.report("start")

    def on_whole(self, item: JsonObject) -> None:
        if self.is_done:
            return
        self._wire = item
        names = [text_of(tool, "name") for tool in objects_of(item, "tools")]
        if item.get("error") or self.has_failed:
            self.report("failed", {"error": item.get("error")})
        else:
            self.report("done", {"tools": names})

    def on_end(self, *, is_complete: bool) -> None:
        if self.has_failed and not self.is_done:
            self.report("failed")


class ApprovalState(OutputItem):
    """The upstream needs a person's approval before it calls a tool of an MCP server."""

    is_announced_whole = True
    is_asked = False

    def on_whole(self, item: JsonObject) -> None:
        if self.is_asked:
            return
        self.is_asked = True
        server, tool = text_of(item, "server_label"), text_of(item, "name")
        raw = as_text(item.get("arguments"))
        arguments = arguments_in(raw)
        shown = raw[:_SHOWN_ARGUMENT_CHARACTERS] or "{}"
        self.tracker.emit(
            AskQuestion(
                ask_id=text_of(item, "id") or self.id,
                question=f"Allow {server or 'the server'} to run {tool} with {shown}?",
                options=[
                    {"id": ALLOW, "label": gettext_noop("Approve")},
                    {"id": DECLINE, "label": gettext_noop("Decline")},
                ],
                style="approval",
                tool=tool or None,
                arguments=arguments,
                arguments_raw=raw if arguments is None else None,
                provider_info=ProviderInfo(type="mcp", server_label=server or None),
            )
        )

    def on_end(self, *, is_complete: bool) -> None:
        if is_complete:
            self.on_whole(self._wire)


class CompactionState(OutputItem):
    """The upstream has condensed the conversation; the next request sends the summary instead."""

    def report(self, phase: Phase) -> None:
        self.step("context", "compaction", phase, gettext_noop("Summarizing the conversation"))

    def on_added(self, item: JsonObject) -> None:
        self.report("start")

    def on_whole(self, item: JsonObject) -> None:
        if self.is_done:
            return
        self.report("done")
        self.tracker.emit(ReplayData(kind="compaction", data=item))


class KeptState(OutputItem):
    """An item that only the next request needs, such as further tools of the server."""

    is_announced_whole = True

    def on_whole(self, item: JsonObject) -> None:
        """Nothing to report."""


class UnknownState(OutputItem):
    """An item of an unknown type, kept as a whole for the details and the next request."""

    is_announced_whole = True

    def on_whole(self, item: JsonObject) -> None:
        if not self.is_done:
            self.around.parser.raw(f"output_item:{self.kind}", data=item)

    def on_end(self, *, is_complete: bool) -> None:
        if not self.is_done and self._wire:
            self.around.parser.raw(f"output_item:{self.kind}", data=self._wire)


# --- the items of one response: created when they are first named, found by id, position or order
# ---

_ITEMS: Mapping[str, type[OutputItem]] = {
    "message": MessageState,
    "reasoning": ReasoningState,
    "mcp_list_tools": ToolListState,
    "mcp_approval_request": ApprovalState,
    "compaction": CompactionState,
    "additional_tools": KeptState,
    **CALLS,
}
# Results of calls that are items of their own.
_OUTPUTS = frozenset(
    (
        *("function_call_output", "custom_tool_call_output", "computer_call_output"),
        *("local_shell_call_output", "shell_call_output", "apply_patch_call_output"),
        *("tool_search_output", "program_output", "tool_output"),
    )
)
# At the end an item is compared with this many of its type: order and ids rarely differ by more.
_MOST_CANDIDATES = 16


class Directory:
    """All items of one response, in the order in which they were named (``all``)."""

    def __init__(self, around: Surroundings) -> None:
        self.all: list[OutputItem] = []
        self._around = around
        self._by_id: dict[tuple[str, str], OutputItem] = {}
        self._by_index: dict[tuple[str, int], OutputItem] = {}
        self._last: dict[str, OutputItem] = {}
        self._unmatched: dict[str, deque[OutputItem]] = {}
        self._by_call_id: dict[str, CallState] = {}
        self._without_result: deque[CallState] = deque()

    def with_id(self, kind: str, identity: str) -> OutputItem | None:
        return self._by_id.get((kind, identity)) if identity else None

    def last(self, kind: str) -> OutputItem | None:
        return self._last.get(kind)

    def create(self, kind: str, identity: str, index: int | None) -> OutputItem:
        """A new item. A type that is not known gives one that is only kept."""
        item: OutputItem
        if kind in _OUTPUTS:
            item = OutputState(self._around, kind, identity, index, deliver=self._deliver)
        else:
            item = _ITEMS.get(kind, UnknownState)(self._around, kind, identity, index)
        self.all.append(item)
        self._last[kind] = item
        self._unmatched.setdefault(kind, deque()).append(item)
        if isinstance(item, CallState):
            self._without_result.append(item)
        self.index(item, identity, index)
        return item

    def index(self, item: OutputItem, identity: str, index: int | None) -> None:
        """The item can be found by this id and at this position from now on."""
        if identity:
            item.id = item.id or identity
            self._by_id[item.kind, identity] = item
        if index is not None:
            item.index = index
            self._by_index[item.kind, index] = item

    def known(self, kind: str, data: JsonObject) -> OutputItem | None:
        """The item of this kind that an event names; without any name it is the latest."""
        identity = text_of(data, "item_id")
        index = whole_of(data, "output_index")
        found = self.with_id(kind, identity)
        if found is None and index is not None:
            at = self._by_index.get((kind, index))
            found = at if at is not None and not (identity and at.is_done) else None
        if found is None and not identity and index is None:
            found = self._last.get(kind)
        return found

    def item(self, kind: str, data: JsonObject) -> OutputItem:
        """The item that a delta names, created if it was not announced."""
        found = self.known(kind, data)
        if found is None:
            index = whole_of(data, "output_index")
            found = self.create(kind, text_of(data, "item_id"), index)
        return found

    def latest(self, kind: str, data: JsonObject) -> OutputItem | None:
        """The item of an event, or the latest of this kind: some servers send unusable keys."""
        return self.known(kind, data) or self._last.get(kind)

    def candidate(self, kind: str, item: JsonObject) -> OutputItem | None:
        """One of the first items of this type without a match: one that agrees, else the first."""
        queue = self._unmatched.get(kind, deque())
        while queue and queue[0].is_matched:
            queue.popleft()
        candidates = [state for state in islice(queue, _MOST_CANDIDATES) if not state.is_matched]
        found = next((state for state in candidates if state.agrees_with(item)), None)
        if found is None and kind == "message" and candidates:
            found = candidates[0]
        return found

    # --- calls and their results -----------------------------------------------------------

    def note_call_id(self, found: OutputItem, item: JsonObject) -> None:
        """Results that name the call by either of its ids reach it from now on."""
        if isinstance(found, CallState):
            for name in ("call_id", "id"):
                if text_of(item, name):
                    self._by_call_id.setdefault(text_of(item, name), found)

    def _deliver(self, item: JsonObject) -> bool:
        """Gives a result to its call. Without a known id that is the oldest call of its type without a
        result; ``tool_output`` belongs to no type."""
        identity = text_of(item, "call_id") or text_of(item, "tool_call_id")
        kind = text_of(item, "type").removesuffix("_output")
        kinds = () if kind == "tool" else (kind, f"{kind}_call")
        found = self._by_call_id.get(identity)
        if found is None and kind == PROGRAM and identity:
            # The program is in an earlier answer, and is reported again.
            found = cast(CallState, self.create(PROGRAM, "", None))
            found.add({"call_id": identity})
        found = found or self._oldest_without_result(kinds)
        if found is None:
            return False
        if item.get("status") in ("failed", "incomplete"):
            found.fail(result_text(item) or FAILED)
            return True
        return found.succeed(result_text(item))

    def _oldest_without_result(self, kinds: tuple[str, ...]) -> CallState | None:
        """The oldest call of these kinds that has no result; of any kind if none is given."""
        while self._without_result and not _waits_for_result(self._without_result[0]):
            self._without_result.popleft()
        return next(
            (
                state
                for state in self._without_result
                if (not kinds or state.kind in kinds) and _waits_for_result(state)
            ),
            None,
        )


def _waits_for_result(state: CallState) -> bool:
    call = state.call
    return call is not None and call.is_open and state.executes == "upstream"
