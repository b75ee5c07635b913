"""Groq's ``executed_tools``: calls that its compound models have run themselves."""

from chat.dialects.items import Call
from chat.dialects.reading import as_object, as_text
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

    def read_entry(self, entry: JsonObject) -> None:
        index = whole_of(entry, "index")
        call = self._call(len(self._calls) if index is None else index, entry)
        if not call.is_open:
            return
        arguments = entry.get("arguments")
        if arguments is not None and not call.has_arguments:
            text = as_text(arguments)
            found = as_object(text) if text.strip() else {}
            self._tracker.call_arguments(call, {"input": text} if found is None else found, text)
        output = entry.get("output")
        if output is not None:
            self._tracker.call_success(call, as_text(output))
            self.sources += objects_of(object_of(entry, "search_results"), "results")
        self._parser.unknown_members_of("executed_tool", entry, _MEMBERS, keeps_null=False)

    def _call(self, index: int, entry: JsonObject) -> Call:
        call = self._calls.get(index)
        if call is None:
            tool = text_of(entry, "name") or text_of(entry, "type") or "tool"
            call = self._tracker.open_call(
                choice=self._number,
                tool=tool,
                executes="upstream",
                provider_info=ProviderInfo(type="builtin", name=tool),
                is_named=True,
            )
            self._calls[index] = call
        return call
