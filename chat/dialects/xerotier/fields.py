"""Members of Xerotier's events, which are spelled ``artifact_id`` in some and ``askUserId`` in
others."""

from collections.abc import Callable, Mapping

from chat.dialects.reading import NotJson, read_json, scrub
from chat.dialects.stream import count_of, text_of
from chat.events import Json, JsonObject

# The member of a native turn that contains ``x_ask_user.pending_state``; it is not part of a
# message.
PENDING_STATE = "pending_state"

# The members that are read, and the check of each value.
Members = Mapping[str, Callable[[Json], bool]]


def camel(name: str) -> str:
    """``artifact_id`` as ``artifactId``: the documentation uses both styles."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def value_of(data: JsonObject, name: str) -> Json:
    return data[name] if name in data else data.get(camel(name))


def text_in(data: JsonObject, name: str) -> str | None:
    """A member if it is text or an integer, as ids may be."""
    value = value_of(data, name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def count_in(data: JsonObject, name: str) -> int | None:
    return count_of({name: value_of(data, name)}, name)


def texts_in(data: JsonObject, name: str) -> list[str] | None:
    value = value_of(data, name)
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else None


def error_message(data: JsonObject) -> str:
    error = data.get("error")
    inner = error if isinstance(error, dict) else {"message": error}
    return text_of(data, "message") or text_of(inner, "message")


def entries_of(value: Json) -> list[Json]:
    """Options or fields as a list; for an object, its names become members of its values."""
    if isinstance(value, dict):
        return [
            {"name": name, **(entry if isinstance(entry, dict) else {"label": entry})}
            for name, entry in value.items()
        ]
    return value if isinstance(value, list) else []


def calls_of(value: Json) -> list[JsonObject]:
    if isinstance(value, str):
        try:
            value = scrub(read_json(value)[0])
        except NotJson:
            return []
    return [call for call in value if isinstance(call, dict)] if isinstance(value, list) else []


# --- kinds of values -----------------------------------------------------------------


def is_text(value: Json) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def is_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def is_objects(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def is_entries(value: Json) -> bool:
    return isinstance(value, list | dict)


def is_calls(value: Json) -> bool:
    return is_objects(value) or (isinstance(value, str) and bool(calls_of(value)))


def is_flag(value: Json) -> bool:
    return isinstance(value, bool)


def is_object(value: Json) -> bool:
    return isinstance(value, dict)


def texts_of(*names: str) -> Members:
    return dict.fromkeys(names, is_text)
