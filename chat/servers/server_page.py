"""A server as the settings pages show it: plain values, without the key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext

from chat.dialects import DIALECTS
from chat.models import SeenEvent, Upstream
from chat.servers.actions.servers import Load, loads


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLine:
    name: str
    label: str
    is_typed: bool
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenKinds:
    """The kinds of events that the server has sent: unknown ones, and the others."""

    unknown: Sequence[SeenEvent]
    known: Sequence[SeenEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPage:
    """The page of a server. ``probe_state`` is "ok", "failed", or "" if no test was made with these
    settings."""

    public_id: UUID
    name: str
    dialect_label: str
    base_url: str
    is_enabled: bool
    is_draining: bool
    load: Load
    is_demo: bool
    key_set_at: datetime | None
    has_key: bool
    concurrency_limit: int
    models: Sequence[ModelLine]
    models_listed_at: datetime | None
    probe: Sequence[dict[str, object]]
    probe_state: str
    probe_text: str
    probed_at: datetime | None


def present_all(upstreams: Iterable[Upstream]) -> list[ServerPage]:
    shown = list(upstreams)
    load = loads(shown)
    return [_present(upstream, load[upstream.pk]) for upstream in shown]


def present(upstream: Upstream) -> ServerPage:
    return present_all([upstream])[0]


def _present(upstream: Upstream, load: Load) -> ServerPage:
    state, text = _verdict(upstream.probe)
    return ServerPage(
        public_id=upstream.public_id,
        name=upstream.name,
        dialect_label=dialect_label(upstream.dialect),
        base_url=upstream.base_url,
        is_enabled=upstream.is_enabled,
        is_draining=upstream.is_draining,
        load=load,
        is_demo=upstream.is_demo,
        key_set_at=upstream.key_set_at,
        has_key=upstream.has_key,
        concurrency_limit=upstream.concurrency_limit,
        models=[_model_line(entry) for entry in upstream.model_list],
        models_listed_at=upstream.models_listed_at,
        probe=upstream.probe,
        probe_state=state,
        probe_text=text,
        probed_at=upstream.probed_at,
    )


def seen_kinds(upstream: Upstream) -> SeenKinds:
    rows = list(upstream.seen_events.order_by("-count", "name"))
    return SeenKinds(
        unknown=[row for row in rows if not row.is_known],
        known=[row for row in rows if row.is_known],
    )


def dialect_label(name: str) -> str:
    dialect = DIALECTS.get(name)
    if dialect is None:
        return gettext("%(name)s (not installed)") % {"name": name}
    return gettext(dialect.label)


def _verdict(steps: Sequence[dict[str, object]]) -> tuple[str, str]:
    failed = next((step for step in steps if step.get("state") == "failed"), None)
    if failed:
        return "failed", str(failed.get("text", ""))
    return ("ok", "") if steps else ("", "")


def _model_line(entry: dict[str, object]) -> ModelLine:
    name = str(entry.get("id", ""))
    return ModelLine(
        name=name,
        label=str(entry.get("label") or name),
        is_typed=bool(entry.get("is_typed")),
        facts=", ".join(_facts(entry.get("detail"))),
    )


# Shown elsewhere already, or the same for every model.
_DULL = {"id", "key", "name", "object", "type", "created", "owned_by", "label", "display_name"}


def _facts(detail: object) -> list[str]:
    """The short facts that a server tells about a model, without objects and lists."""
    if not isinstance(detail, dict):
        return []
    told = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in detail.items()
        if name not in _DULL
        and isinstance(value, str | int | float)
        and not isinstance(value, bool)
        and value != ""
    ]
    return told[:5]
