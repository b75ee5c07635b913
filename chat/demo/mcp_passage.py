"""A tool of the demo's MCP server that asks people in the middle of a call."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]

LOCKS = {"north": "North lock", "south": "South lock"}
MOST_PASSENGERS = 50
KEY = "passage"
# The state of the request: the client sends it back with the answer, so the server stores nothing.
STATE = "passage:1"

FORM: JsonObject = {
    "type": "object",
    "properties": {
        "lock": {
            "type": "string",
            "title": "Lock",
            "oneOf": [{"const": name, "title": title} for name, title in LOCKS.items()],
        },
        "day": {"type": "string", "format": "date", "title": "Day"},
        "passengers": {
            "type": "integer",
            "title": "Passengers",
            "minimum": 1,
            "maximum": MOST_PASSENGERS,
            "default": 2,
        },
        "extras": {
            "type": "array",
            "title": "Extras",
            "items": {"type": "string", "enum": ["pilot", "tug", "fresh water"]},
        },
        "remark": {"type": "string", "title": "Remark", "maxLength": 200},
    },
    "required": ["lock", "day", "passengers"],
}


def passage(params: JsonObject) -> JsonObject:
    """The result of a call, which is a request for a form until the form comes with the call."""
    ship = str((params.get("arguments") or {}).get("ship") or "The ship")
    reply = (params.get("inputResponses") or {}).get(KEY)
    if params.get("requestState") != STATE or not isinstance(reply, dict):
        return _asks(f"Which passage should I book for {ship}?")
    if reply.get("action") != "accept":
        return _text(f"No passage was booked for {ship}.")
    content = reply.get("content") or {}
    lock, passengers = LOCKS.get(content.get("lock")), content.get("passengers")
    if lock is None or not isinstance(passengers, int) or not content.get("day"):
        return _asks(f"Something is missing. Which passage should I book for {ship}?")
    booked = {"ship": ship, **content}
    return _text(f"{ship}: {lock}, {content['day']}, {passengers} passengers.", structured=booked)


def _asks(message: str) -> JsonObject:
    params = {"mode": "form", "message": message, "requestedSchema": FORM}
    return {
        "resultType": "input_required",
        "inputRequests": {KEY: {"method": "elicitation/create", "params": params}},
        "requestState": STATE,
    }


def _text(text: str, **members: Any) -> JsonObject:
    content = [{"type": "text", "text": text}]
    found: JsonObject = {"resultType": "complete", "content": content}
    if "structured" in members:
        found["structuredContent"] = members["structured"]
    return found
