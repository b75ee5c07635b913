"""The members that a server's settings add to every request."""

from chat.dialects.parameters import Values
from chat.events import Json, JsonObject
from chat.events.translation import gettext_noop

NOT_AN_OBJECT = gettext_noop(
    "The additional fields from the server’s settings were left out: they aren’t a JSON object."
)
NEVER_ADDED = (
    "The additional field {name} from the server’s settings was left out: it can’t be set there."
)
OVERRULED = (
    "The additional field {name} from the server’s settings was overruled: the request has its own."
)

# Members of all APIs with the conversation, and with the delivery of the answer.
_CONVERSATION = frozenset(
    (
        *("model", "messages", "prompt", "input", "system", "instructions"),
        *("previous_response_id", "conversation", "stream", "stream_options", "echo"),
    )
)


def add_members(body: JsonObject, options: Values) -> list[str]:
    """Adds members that the request lacks, also in nested objects. Returns a sentence for each
    member that is not sent as it was set."""
    members = options.get("extra_body")
    if members is None:
        return []
    if not isinstance(members, dict):
        return [NOT_AN_OBJECT]
    notes = []
    for name, value in members.items():
        if name in _CONVERSATION:
            notes.append(NEVER_ADDED.format(name=name))
            continue
        body[name] = _under(value, body[name]) if name in body else value
        if not holds(body[name], value):
            notes.append(OVERRULED.format(name=name))
    return notes


def holds(value: Json, part: Json) -> bool:
    """Returns whether a value is what was set, or contains it."""
    if isinstance(value, dict) and isinstance(part, dict):
        return all(name in value and holds(value[name], each) for name, each in part.items())
    return bool(value == part)


def _under(added: Json, own: Json) -> Json:
    """The request's own value, with the members that only the added one has."""
    if not isinstance(added, dict) or not isinstance(own, dict):
        return own
    both = {name: _under(added[name], own[name]) for name in added.keys() & own.keys()}
    return {**added, **own, **both}
