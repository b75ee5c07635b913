"""Models with their keys, and projects, that a program may use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy

from chat import access
from chat.dialects import DIALECTS
from chat.events import Json, JsonObject
from chat.models import AccessToken, Team, Upstream, User
from chat.public_api.requests import unknown_model

# Texts from an upstream's list are limited to this length.
TEXT_LENGTH = 2000
AMBIGUOUS = gettext_lazy("Several servers have a model named %(model)s. %(server)s was used.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A model of a server, and its key in the list."""

    upstream: Upstream
    model: str
    key: str
    entry: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The model that a key names; ``note`` if the key could also have meant another one."""

    upstream: Upstream
    model: str
    note: str = ""


def offers(user: User, team: Team | None = None) -> list[Offer]:
    """Every model of every server that this user may use in the team, or in any of theirs, each with a unique key: its id if no
    other model has it, else the server's name before the id."""
    found = [
        (upstream, entry)
        for upstream in _usable(user, team)
        for entry in _entries(upstream.chat_models)
    ]
    ids = Counter(entry["id"] for _, entry in found)
    names = Counter(qualified(upstream, entry["id"]) for upstream, entry in found)

    def key_of(upstream: Upstream, model: str) -> str:
        long = qualified(upstream, model)
        if ids[model] == 1 and (model not in names or model == long):
            return model
        is_clear = names[long] == 1 and long not in ids
        return long if is_clear else f"{upstream.public_id}/{model}"

    return [
        Offer(upstream=upstream, model=entry["id"], key=key_of(upstream, entry["id"]), entry=entry)
        for upstream, entry in found
    ]


def qualified(upstream: Upstream, model: str) -> str:
    return f"{upstream.name}/{model}"


def _usable(user: User, team: Team | None) -> list[Upstream]:
    teams = None if team is None else [team]
    usable = access.usable_upstreams(user, teams, without_models=True)
    return [each for each in usable if each.dialect in DIALECTS]


def _entries(models: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in models if isinstance(entry.get("id"), str) and entry["id"])


def find_model(
    user: User, team: Team | None, key: str, *, preferred: Upstream | None = None
) -> Chosen:
    """The model for a key: the key of the list, a bare id, or the server's name before the id.

    If several servers have the id, the ``preferred`` one is used, else the first. A server without
    a list accepts any name. Raises ``ApiError``.
    """
    found = offers(user, team)
    for offer in found:
        if offer.key == key:
            return Chosen(upstream=offer.upstream, model=offer.model)
    bare = [offer for offer in found if offer.model == key]
    if bare:
        bare.sort(key=lambda offer: offer.upstream != preferred)
        upstream = bare[0].upstream
        values = {"model": key, "server": upstream.name}
        note = AMBIGUOUS % values if len(bare) > 1 else ""
        return Chosen(upstream=upstream, model=key, note=note)
    for upstream in _usable(user, team):
        for name in (upstream.name, str(upstream.public_id)):
            model = key.removeprefix(f"{name}/")
            if model != key and _has(upstream, model):
                return Chosen(upstream=upstream, model=model)
    raise unknown_model(key)


def _has(upstream: Upstream, model: str) -> bool:
    known = [entry["id"] for entry in _entries(upstream.chat_models)]
    may_be = not upstream.model_list and bool(model.strip()) and not upstream.is_off(model)
    return model in known or may_be


# --- the list -----------------------------------------------------------------------------------


def model_list(user: User, team: Team | None) -> JsonObject:
    """The response of ``GET /api/v1/models``."""
    return {"models": [_described(offer) for offer in offers(user, team)]}


def project_list(token: AccessToken) -> JsonObject:
    """The response of ``GET /api/v1/projects``: those of the token's team in which its user may
    start conversations."""
    projects = access.writable_projects(token.user).filter(team=token.team_id)
    return {
        "projects": [
            {"id": str(each.public_id), "name": each.name, "description": each.description}
            for each in projects.order_by("name", "pk")
        ]
    }


def _described(offer: Offer) -> JsonObject:
    """LM Studio's members, as far as the server has them; the others are null or left out. The
    server's list is not trusted, so only values of the right type are copied."""
    detail = offer.entry.get("detail")
    known = detail if isinstance(detail, dict) else {}
    described: JsonObject = {
        "type": "llm",
        "publisher": _first_text(known, "publisher", "owned_by"),
        "key": offer.key,
        "display_name": str(offer.entry.get("label") or offer.model)[:TEXT_LENGTH],
        "architecture": _first_text(known, "architecture"),
        "quantization": _quantization(known.get("quantization")),
        "size_bytes": _count(known.get("size_bytes")),
        "params_string": _first_text(known, "params_string"),
        "loaded_instances": _instances(known.get("loaded_instances")),
        "max_context_length": _context_length(known),
        "format": _first_text(known, "format"),
        "description": _first_text(known, "description"),
        "server": offer.upstream.name,
    }
    capabilities = _capabilities(known.get("capabilities"))
    return described | ({"capabilities": capabilities} if capabilities else {})


def _first_text(members: Mapping[str, Json], *names: str) -> str | None:
    values = (members.get(name) for name in names)
    return next((v[:TEXT_LENGTH] for v in values if isinstance(v, str) and v), None)


def _count(value: Json) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 2**63 else None


_LENGTHS = ("max_context_length", "context_length", "max_model_len", "max_input_tokens")


def _context_length(members: Mapping[str, Json]) -> int | None:
    return next((n for name in _LENGTHS if (n := _count(members.get(name)))), None)


def _quantization(value: Json) -> JsonObject | None:
    if not isinstance(value, dict):
        return None
    bits = value.get("bits_per_weight")
    is_number = isinstance(bits, int | float) and not isinstance(bits, bool)
    return {"name": _first_text(value, "name"), "bits_per_weight": bits if is_number else None}


def _instances(value: Json) -> list[JsonObject]:
    """The loaded instances when the list was last read; empty if the server's list has none."""
    entries = value if isinstance(value, list) else []
    return [
        {"id": each["id"][:TEXT_LENGTH], "config": _numbers(each.get("config"))}
        for each in entries[:16]
        if isinstance(each, dict) and isinstance(each.get("id"), str)
    ]


def _numbers(value: Json) -> JsonObject:
    members = value.items() if isinstance(value, dict) else ()
    return {name[:100]: each for name, each in members if isinstance(each, bool | int | float)}


def _capabilities(value: Json) -> JsonObject | None:
    if not isinstance(value, dict):
        return None
    found: JsonObject = {
        name: value[name]
        for name in ("vision", "trained_for_tool_use")
        if isinstance(value.get(name), bool)
    }
    reasoning = value.get("reasoning")
    allowed = reasoning.get("allowed_options") if isinstance(reasoning, dict) else None
    if isinstance(reasoning, dict) and isinstance(allowed, list):
        found["reasoning"] = {
            "allowed_options": [each[:40] for each in allowed[:16] if isinstance(each, str)],
            "default": _first_text(reasoning, "default"),
        }
    return found
