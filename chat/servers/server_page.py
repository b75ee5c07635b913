"""A server as the settings pages show it: plain values, without the key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext

from chat.dialects import DIALECTS
from chat.models import Run, RunStatus, SeenEvent, Upstream
from chat.models.upstream import is_chat_model, is_offered
from chat.servers.actions.servers import Load, loads
from chat.web.model_facts import context_in_words, is_count

# Statuses of a run that say that something is wrong with the server or on the way to it.
_FAILED = (RunStatus.FAILED, RunStatus.CUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLine:
    name: str
    label: str
    is_typed: bool
    is_on: bool
    # Others, such as models for embeddings, are never offered.
    is_chat: bool
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenKinds:
    """The kinds of events that the server has sent: unknown ones, and the others."""

    unknown: Sequence[SeenEvent]
    known: Sequence[SeenEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPage:
    """The page of a server. ``probe_state`` is "ok", "failed", or "" if no test was made with these
    settings. ``answered_at`` is when its last answer ended, well or not."""

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
    # The last failure to read the list since then, and its reason.
    models_failed_at: datetime | None
    models_error: str
    offered_count: int
    answered_at: datetime | None
    has_last_answer_failed: bool
    is_plain_http: bool
    probe: Sequence[dict[str, object]]
    probe_state: str
    probe_text: str
    probed_at: datetime | None


def present_all(upstreams: Iterable[Upstream], *, with_answers: bool = True) -> list[ServerPage]:
    """``with_answers``: with the time of the last one, for which the runs are searched."""
    shown = list(upstreams)
    load = loads(shown)
    last = _last_runs(shown) if with_answers else {}
    return [_present(upstream, load[upstream.pk], last.get(upstream.pk)) for upstream in shown]


def present(upstream: Upstream) -> ServerPage:
    return present_all([upstream])[0]


def _last_runs(upstreams: Sequence[Upstream]) -> dict[int, Run]:
    """The newest ended run of each server, by the server's primary key."""
    ended = Run.objects.filter(upstream=OuterRef("pk"), finished_at__isnull=False)
    newest = Upstream.objects.filter(pk__in=[each.pk for each in upstreams]).values_list(
        Subquery(ended.order_by("-pk").values("pk")[:1]), flat=True
    )
    runs = Run.objects.filter(pk__in=[pk for pk in newest if pk])
    return {
        run.upstream_id: run
        for run in runs.only("upstream_id", "status", "finished_at")
        if run.upstream_id
    }


def _present(upstream: Upstream, load: Load, last_run: Run | None) -> ServerPage:
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
        models_failed_at=upstream.models_failed_at if upstream.models_error else None,
        models_error=gettext(upstream.models_error) if upstream.models_error else "",
        offered_count=len(upstream.chat_models),
        answered_at=last_run.finished_at if last_run else None,
        has_last_answer_failed=bool(last_run and last_run.status in _FAILED),
        is_plain_http=upstream.base_url.startswith("http://"),
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
        is_on=is_offered(entry),
        is_chat=is_chat_model(entry),
        facts=", ".join(_facts(entry.get("detail"))),
    )


def matching_models(upstream: Upstream, query: str) -> list[ModelLine]:
    """The models whose name or label has every word of ``query``."""
    words = query.casefold().split()
    return [
        line
        for line in map(_model_line, upstream.model_list)
        if all(word in f"{line.name} {line.label}".casefold() for word in words)
    ]


def _facts(detail: object) -> list[str]:
    """The size, the format and the context of a model, as far as its server tells them."""
    if not isinstance(detail, dict):
        return []
    size = detail.get("size_bytes")
    texts = [detail.get("params_string"), _quantization(detail.get("quantization"))]
    facts = [text[:40] for text in texts if isinstance(text, str) and text]
    if is_count(size):
        facts.append(filesizeformat(size))
    if context := context_in_words(detail):
        facts.append(context)
    return facts


def _quantization(value: object) -> object:
    """LM Studio sends an object with a name, others a text."""
    return value.get("name") if isinstance(value, dict) else value
