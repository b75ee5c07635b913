"""Values of the Messages API read into ours: citations, results of tools, token counts."""

from chat.dialects.reading import write_json
from chat.dialects.stream import count_of, text_of
from chat.events import Citation, Json, JsonObject

_NO_REASON = "The server's tool failed without saying why."


def read_citation(citation: JsonObject) -> Citation:
    """The position of a citation is one in its source, so it stays there: ``start`` and ``end``
    are positions in the answer. What is encrypted goes back with the text and nowhere else."""
    source = citation.get("source")
    url = text_of(citation, "url") or (source if isinstance(source, str) else "")
    title = text_of(citation, "title") or text_of(citation, "document_title")
    place = {
        name: value
        for name, value in citation.items()
        if value is not None and name.endswith(("_index", "_number", "file_id"))
    }
    return Citation(
        kind=text_of(citation, "type") or "unknown",
        title=title or None,
        url=url or None,
        cited_text=text_of(citation, "cited_text") or None,
        source=without_secrets(place) or None,
        raw=without_secrets(citation),
    )


def output_text(content: Json) -> str:
    """A tool's result as text; of text blocks what they say, of anything else its JSON."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    if texts and len(texts) == len(blocks) and all(isinstance(text, str) for text in texts):
        return "\n\n".join(str(text) for text in texts)
    return write_json(without_secrets(content))


def without_secrets(value: Json) -> Json:
    """The value without its encrypted members: kilobytes that only the upstream can read."""
    if isinstance(value, dict):
        return {
            name: without_secrets(member)
            for name, member in value.items()
            if not str(name).startswith("encrypted_")
        }
    if isinstance(value, list):
        return [without_secrets(member) for member in value]
    return value


def failure_reason(content: Json) -> str:
    members: JsonObject = content if isinstance(content, dict) else {}
    named = text_of(members, "error_message") or text_of(members, "error_code")
    if named or isinstance(content, dict):
        return named or output_text(content)
    return output_text(content) if content else _NO_REASON


def read_counts(usage: JsonObject) -> tuple[int | None, int | None]:
    """Input tokens, the cached ones included, and output tokens, as the members say."""
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = [count for name in names if (count := count_of(usage, name)) is not None]
    return (sum(counts) if counts else None), count_of(usage, "output_tokens")
