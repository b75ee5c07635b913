"""Reads the small values of the Responses API: usage, annotations, outputs and errors of tools."""

from collections.abc import Iterable, Sequence

from chat.dialects.reading import as_object, as_text, join_surrogates, write_json
from chat.dialects.stream import object_of, objects_of, text_of, whole_of
from chat.events import Citation, Json, JsonObject

# Members of the response object that say more than the request or its items.
FACTS = (
    *("service_tier", "created_at", "conversation", "moderation", "tool_usage", "agent"),
    *("prompt_cache_diagnostics", "input_transformations"),
)
RESPONSE_MEMBERS = frozenset(
    (
        *("id", "object", "model", "status", "output", "output_text", "usage", "error"),
        *("incomplete_details", "instructions", "metadata", "parallel_tool_calls", "temperature"),
        *("tool_choice", "tools", "top_p", "background", "completed_at", "max_output_tokens"),
        *("max_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "reasoning"),
        *("prompt_cache_retention", "prompt_cache_options", "safety_identifier", "text", "store"),
        *("top_logprobs", "truncation", "user", "input", "access_programs", "image"),
        *("frequency_penalty", "presence_penalty", "billing", *FACTS),
    )
)
EVENT_MEMBERS = frozenset(
    (
        *("type", "sequence_number", "item_id", "output_index", "content_index", "summary_index"),
        *("annotation_index", "command_index", "delta", "text", "refusal", "arguments", "name"),
        *("input", "code", "command", "part", "item", "annotation", "logprobs", "obfuscation"),
        *("response", "partial_image_b64", "partial_image_index", "background", "size"),
        *("output_format", "quality", "status", "output", "error", "message", "param"),
        *("response_id", "stream_id", "transcript", "call_id"),
    )
)


class Received:
    """One text as it arrived: ``pieces`` in the upstream's own spelling, to be appended to."""

    __slots__ = ("_counted", "_length", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._counted = self._length = 0

    def length(self) -> int:
        """Characters so far; only what is new since the last call is counted."""
        self._length += sum(map(len, self.pieces[self._counted :]))
        self._counted = len(self.pieces)
        return self._length

    def joined(self) -> str:
        return join_surrogates("".join(self.pieces))

    def rest_of(self, whole: str) -> str | None:
        """The part of the whole that has not arrived yet; ``None`` if the whole is different. An
        empty whole says nothing. A much shorter one is not compared, so that repeating it costs no
        more than its own length."""
        if not whole:
            return ""
        if 2 * len(whole) < self.length():
            return None
        whole, received = join_surrogates(whole), self.joined()
        return whole[len(received) :] if whole.startswith(received) else None


def part_index(data: JsonObject, name: str) -> int:
    """The number of a part of an item. Some servers count from -1, or not at all."""
    return max(0, whole_of(data, name) or 0)


def indexes_of(streamed: Iterable[int], count: int) -> Sequence[int]:
    """The number under which each of ``count`` parts of a whole item was streamed. Some servers count
    parts of other items as well, so that the only part was streamed as number 1: numbers beyond the
    item are used in their order."""
    numbers = sorted(streamed)
    if not numbers or numbers[-1] < count:
        return range(count)
    later = range(numbers[-1] + 1, numbers[-1] + 1 + count)
    return [*numbers, *later][:count]


def arguments_in(text: str) -> JsonObject | None:
    """The object in argument text; a call without arguments has an empty one."""
    return as_object(text) if text.strip() else {}


def citation_of(annotation: JsonObject) -> Citation:
    """``url_citation``, ``file_citation``, ``container_file_citation``, ``file_path`` and others."""
    inner = object_of(annotation, text_of(annotation, "type")) or annotation
    names = ("file_id", "container_id", "filename", "index")
    source = {name: inner[name] for name in names if inner.get(name) is not None}
    return Citation(
        kind=text_of(annotation, "type") or "annotation",
        title=text_of(inner, "title") or text_of(inner, "filename") or None,
        url=text_of(inner, "url") or None,
        cited_text=text_of(inner, "quote") or None,
        start=whole_of(inner, "start_index"),
        end=whole_of(inner, "end_index"),
        source=source or None,
        raw=annotation,
    )


def output_text(value: Json) -> str:
    """The output of a tool as text: text parts are joined, output of commands is formatted."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        if all(isinstance(part.get("text"), str) for part in value):
            return "\n".join(part["text"] for part in value)
        if all("stdout" in part or "stderr" in part for part in value):
            return "\n".join(filter(None, map(_terminal_text, value)))
    return write_json(value)


def _terminal_text(part: JsonObject) -> str:
    """The output of one command, and how it ended if that matters."""
    outcome = object_of(part, "outcome")
    texts = [text_of(part, "stdout").rstrip("\n"), text_of(part, "stderr").rstrip("\n")]
    if outcome.get("type") == "timeout":
        texts.append("(timed out)")
    elif outcome.get("exit_code"):
        texts.append(f"(exit code {outcome['exit_code']})")
    return "\n".join(filter(None, texts))


def failure_text(error: Json, otherwise: str) -> str:
    """Why a tool failed: a text, or an object with a message or the tool's own content."""
    if isinstance(error, dict):
        content = output_text(error.get("content"))
        return text_of(error, "message") or content or write_json(error)
    return as_text(error) or otherwise


def log_text(outputs: list[JsonObject]) -> str:
    """The text that a code interpreter printed."""
    return "\n".join(text_of(output, "logs") for output in outputs if output.get("type") == "logs")


def search_sources(item: JsonObject) -> str:
    """The pages of a web search, one address on each line; only some requests ask for them."""
    sources = objects_of(object_of(item, "action"), "sources")
    return "\n".join(filter(None, (text_of(source, "url") for source in sources)))
