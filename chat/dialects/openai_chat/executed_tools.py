"""Groq's ``executed_tools``: calls that its compound models have run themselves."""

from chat.dialects.items import Call
from chat.dialects.reading import as_object, write_json
from chat.dialects.stream import StreamParser, object_of, objects_of, text_of, whole_of
from chat.events import JsonObject, ProviderInfo

_MEMBERS = frozenset(("index", "type", "name", "arguments", "output", "search_results"))


class ExecutedTools:
    """The calls of one choice by their index, which comes again with the output."""

    def __init__(self, parser: StreamParser, number: int) -> None:
        self._parser = parser
        self._tracker = parser.tracker
        self._number = number
        self._calls: dict[int, Call] = {}
        # Pages that the calls have found, until they are cited.
        self.sources: list[JsonObject] = []

    def take(self, entry: JsonObject) -> None:
        index = whole_of(entry, "index")
        call = self._call(len(self._calls) if index is None else index, entry)
        if not call.is_open:
            return
        arguments = entry.get("arguments")
        if arguments is not None and not call.has_arguments:
            text = arguments if isinstance(arguments, str) else write_json(arguments)
            found = as_object(text) if text.strip() else {}
            self._tracker.call_arguments(call, {"input": text} if found is None else found, text)
        output = entry.get("output")
        if output is not None:
            self._tracker.call_success(
                call, output if isinstance(output, str) else write_json(output)
            )
            self.sources += objects_of(object_of(entry, "search_results"), "results")
        for name, value in entry.items():
            if name not in _MEMBERS and value is not None:
                self._parser.unknown_member("executed_tool", name, value)

    def _call(self, index: int, entry: JsonObject) -> Call:
        call = self._calls.get(index)
        if call is None:
            tool = text_of(entry, "name") or text_of(entry, "type") or "tool"
            call = self._tracker.open_call(
                choice=self._number,
                tool=tool,
                executes="upstream",
                provider_info=ProviderInfo(type="builtin", name=tool),
            )
            self._tracker.announce(call)
            self._calls[index] = call
        return call
