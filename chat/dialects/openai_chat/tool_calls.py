"""The tool calls of one choice: finds the call that each fragment belongs to.

The API numbers calls with ``index`` and names each once. Servers number every fragment, or all
calls 0, or none; they change a call's id, repeat its name or send it last.
"""

from collections.abc import Callable

from chat.dialects.items import NO_ARGUMENTS, Call, read_arguments
from chat.dialects.reading import NotJson, read_json, write_json
from chat.dialects.stream import StreamParser, object_of, text_of
from chat.events import Json, JsonObject, ProviderInfo, ReplayData

# Checking whether a call is complete costs too much in longer arguments for the rare servers that
# need it (no index, no id, several calls).
_MOST_PROBED_CHARACTERS = 16 * 1024

# Gateways of Google and LiteLLM want these back: thought signatures.
EXTRA_MEMBERS = ("extra_content", "provider_specific_fields")
_CALL_MEMBERS = frozenset(("index", "id", "type", "function", "custom", *EXTRA_MEMBERS))


class ToolCalls:
    """``before_call`` ends the text that stands before a new call."""

    def __init__(self, parser: StreamParser, number: int, before_call: Callable[[], None]) -> None:
        self._parser = parser
        self._tracker = parser.tracker
        self._number = number
        self._before_call = before_call
        self._calls: list[Call] = []
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._latest: Call | None = None
        # The calls of the last list with several entries: later lists may repeat only its order.
        self._row: list[Call] = []
        self._signatures: dict[int, JsonObject] = {}
        self._has_legacy_call = False
        self._has_strays = False

    # --- fragments ---------------------------------------------------------------------

    def add_fragments(self, value: Json) -> None:
        fragments = value if isinstance(value, list) else [value]
        row: list[Call] = []
        for position, fragment in enumerate(fragments):
            if not isinstance(fragment, dict):
                self._keep_stray(fragment)
                continue
            at_position = self._row[position] if len(self._row) == len(fragments) else None
            row.append(self._take_fragment(fragment, row, at_position))
        if len(row) > 1:
            self._row = row

    def take_function_call(self, value: Json) -> None:
        """The older form: one call in a choice."""
        if not isinstance(value, dict):
            self._parser.raw("delta", data={"function_call": value})
            return
        if not self._has_legacy_call:
            self._has_legacy_call = True
            self._open_call()
        self._take_function(self._calls[-1], value)

    def _take_fragment(
        self, fragment: JsonObject, row: list[Call], at_position: Call | None
    ) -> Call:
        custom = object_of(fragment, "custom")
        function = custom or object_of(fragment, "function")
        if custom:
            function = {"name": custom.get("name"), "arguments": custom.get("input")}
        identity, index = text_of(fragment, "id"), _index_of(fragment)
        call = self._call_of(identity, index, function, row, at_position)
        if not call.is_open and function.get("arguments"):
            self._keep_stray(fragment)
        if custom:
            call.provider_info = ProviderInfo(type="custom")
        # An id that another call of this answer has would give both calls one result.
        if identity and self._by_id.setdefault(identity, call) is call:
            call.call_id = call.call_id or identity
        if index is not None:
            self._by_index[index] = call
        self._latest = call
        self._take_function(call, function)
        for name in EXTRA_MEMBERS:
            if fragment.get(name):
                self._keep_signature(call, name, fragment[name])
        self._parser.unknown_members_of("tool_call", fragment, _CALL_MEMBERS)
        return call

    def _take_function(self, call: Call, function: JsonObject) -> None:
        name = text_of(function, "name")
        if name and name != call.tool and (not call.tool or not call.pieces):
            # The name may come in pieces, or last; once there are arguments it is complete.
            call.tool += name
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            self._tracker.call_text(call, arguments)
        elif arguments is not None:
            self._tracker.call_whole_text(call, write_json(arguments))

    # --- which call --------------------------------------------------------------------

    def _call_of(
        self,
        identity: str,
        index: int | None,
        function: JsonObject,
        row: list[Call],
        at_position: Call | None,
    ) -> Call:
        """A known id decides, then the index. A name begins a call unless it repeats or completes
        that of the call found; a fragment without one continues a call that still needs it."""
        by_id = self._by_id.get(identity) if identity else None
        by_index = self._by_index.get(index) if index is not None else None
        name, arguments = text_of(function, "name"), function.get("arguments")
        if name:
            found = by_index or by_id if index is not None else by_id
            if found is None and index is None and not identity:
                found = self._latest
            is_found = found is not None and self._is_named(
                found, name, arguments, identity, is_addressed=bool(by_id or by_index)
            )
            # Two entries of one list with names are two calls, unless they share an id and an index.
            is_new_index = index is not None and by_index is None
            is_another = found in row and (found is not by_id or is_new_index)
            if found is None or not is_found or is_another:
                return self._open_call()
            return found
        found = by_id or by_index
        if found is None and index is None and not identity:
            found = at_position or self._latest
            if found is not None and _is_followed_by(found, arguments):
                # The arguments of another call, whose name comes after them.
                return self._open_call()
        if found is None and arguments and self._latest and _takes_more(self._latest):
            found = self._latest
        return found or self._open_call()

    def _is_named(
        self, call: Call, name: str, arguments: Json, identity: str, *, is_addressed: bool
    ) -> bool:
        """A name belongs to this call if it can be its name. The call was found by id or index
        (``is_addressed``), or is just the latest."""
        if identity and call.call_id and identity != call.call_id:
            return False
        if not call.tool:
            return True
        if name != call.tool:
            # A piece of the name, which ends before the arguments begin.
            return is_addressed and not call.pieces
        begins_anew = isinstance(arguments, dict) or (
            isinstance(arguments, str) and arguments.lstrip().startswith("{")
        )
        if not begins_anew or identity or not _is_complete(call):
            return True
        # Complete, and more arguments under the same index: the same once more, or another call.
        return is_addressed and str(arguments).startswith(call.joined())

    def _open_call(self) -> Call:
        self._before_call()
        call = self._tracker.open_call(
            choice=self._number, provider_info=ProviderInfo(type="function")
        )
        self._calls.append(call)
        return call

    def _keep_stray(self, fragment: Json) -> None:
        """A fragment of no call, or of one that has ended."""
        self._has_strays = True
        self._parser.raw("delta", data={"tool_calls": [fragment]})
        self._fail_empty_calls()

    def _keep_signature(self, call: Call, name: str, signature: Json) -> None:
        self._signatures.setdefault(call.number, {})[name] = signature
        self._tracker.emit(
            ReplayData(
                kind="thought_signature",
                data=signature,
                item=call.number,
                choice=self._number,
                call_id=call.call_id,
            )
        )

    # --- the end -----------------------------------------------------------------------

    def finish(self, answer_id: str) -> None:
        """Calls without an id get a permanent one; ``answer_id`` makes it unique in the
        conversation."""
        place = [answer_id, str(self._number)] if self._number else [answer_id]
        for position, call in enumerate(self._calls):
            if not call.call_id:
                call.call_id = "_".join(filter(None, ["call", *place, str(position)]))
                call.id_synthesised = True
            if _is_custom(call) and call.is_open and not call.has_arguments:
                # The input of such a tool is plain text, not JSON.
                text = call.joined()
                self._tracker.call_arguments(call, {"input": text}, text)
        self._fail_empty_calls()

    def _fail_empty_calls(self) -> None:
        self._tracker.fail_empty_calls(
            lambda call: self._has_strays or _is_torn(call), choice=self._number
        )

    def waiting(self) -> list[Call]:
        """Calls that can be run and were not."""
        return [call for call in self._calls if call.has_arguments]

    def native(self) -> list[JsonObject]:
        return [self._native_call(call) for call in self.waiting()]

    def _native_call(self, call: Call) -> JsonObject:
        wire: JsonObject = {"id": call.call_id}
        if _is_custom(call):
            custom = {"name": call.tool, "input": call.arguments_raw or ""}
            wire |= {"type": "custom", "custom": custom}
        else:
            function = {"name": call.tool, "arguments": call.arguments_raw or "{}"}
            wire |= {"type": "function", "function": function}
        wire |= self._signatures.get(call.number, {})
        if self._has_legacy_call:
            wire["legacy"] = True
        return wire


def _index_of(fragment: JsonObject) -> int | None:
    """The index, which some servers send as text."""
    index = fragment.get("index")
    if isinstance(index, str) and index.isascii() and index.isdigit():
        # A longer number is no index, and slow to convert.
        return int(index[:10])
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _is_custom(call: Call) -> bool:
    return call.provider_info is not None and call.provider_info.type == "custom"


def _is_complete(call: Call) -> bool:
    """A call is complete if its arguments so far are JSON. The last character is looked at first, because
    some servers need this with every fragment."""
    if not call.pieces or call.piece_characters > _MOST_PROBED_CHARACTERS:
        return False
    return call.pieces[-1].rstrip()[-1:] in ("}", "]", '"') and _is_json(call.joined())


def _is_followed_by(call: Call, arguments: Json) -> bool:
    """Another object follows a call that has one, and does not say it again."""
    if not isinstance(arguments, str) or not arguments.lstrip().startswith("{"):
        return False
    return not _takes_more(call) and not arguments.startswith(call.joined())


def _takes_more(call: Call) -> bool:
    """Further arguments may belong to a call that is incomplete, or has an empty object as a placeholder."""
    return not _is_complete(call) or call.joined().strip() in NO_ARGUMENTS


def _is_torn(call: Call) -> bool:
    """Arguments are torn if they are a piece of an object, or an object and more: some of them belong to
    another call, or were lost."""
    if not call.tool or not call.is_open or _is_custom(call):
        return not call.tool
    raw, arguments = read_arguments(call)
    text = raw.strip()
    is_whole = text.startswith("{") and text.endswith("}") and "}{" not in text
    return arguments is None and not is_whole and not _is_json(text)


def _is_json(text: str) -> bool:
    try:
        read_json(text)
    except NotJson:
        return False
    return True
