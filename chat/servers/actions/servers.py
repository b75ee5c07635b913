"""Adds, changes, enables and deletes servers; stores the results of tests and model lists.

The caller is an administrator and has fetched the row through ``chat.access``. No action here opens
a connection, and none puts a key into an audit row, a message or a log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import IntegrityError, transaction
from django.db.models import Count, QuerySet
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from chat.core import notify
from chat.core.encryption import DecryptionError
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Run, RunStatus, Upstream, User
from chat.models.run import LIVE_STATUSES
from chat.models.upstream import is_chat_model, is_offered
from chat.servers.actions.base_url import normal_base_url, origin
from chat.servers.kinds import ServerKind

# The concurrency of a new server, until somebody sets it.
CONCURRENCY = 4
# A longer list does not help to choose; other names can be typed.
MODEL_LIMIT = 1000
NAME_LIMIT = 200
# The highest limit that a server can have.
MOST_CONCURRENT = 1000
# A model's details are shown in one line; longer ones are dropped.
DETAIL_LIMIT_BYTES = 4096

ModelEntry = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The values of the settings form. ``key`` is a new key, or empty to keep the stored one.
    ``secret_options`` are new values; of the stored ones, those named in ``kept_secrets`` stay."""

    name: str
    dialect: str
    base_url: str
    concurrency_limit: int
    options: Mapping[str, object] = field(default_factory=dict)
    secret_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    kept_secrets: frozenset[str] = frozenset()
    parameters: Mapping[str, object] = field(default_factory=dict)
    typed_models: Sequence[str] = ()
    key: str = field(default="", repr=False)
    clear_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange:
    """The result of a change. Secrets are dropped if the server is a different one."""

    upstream: Upstream
    key_was_dropped: bool = False
    options_were_dropped: bool = False


def settings_of_kind(kind: ServerKind | None, address: str) -> ServerSettings:
    """The settings of a new server at this address with everything else as its kind fills it in, and a
    name that no server has. Without a kind it is any server with chat completions. Raises
    ``ActionRefused``."""
    name = kind.name if kind else gettext("Compatible server")
    taken = set(Upstream.objects.filter(name__startswith=name).values_list("name", flat=True))
    names = (name, *(f"{name} {number}" for number in range(2, len(taken) + 2)))
    return ServerSettings(
        name=next(each for each in names if each not in taken),
        dialect=kind.dialect if kind else "openai_chat",
        base_url=normal_base_url(address),
        concurrency_limit=CONCURRENCY,
        options=kind.options if kind else {},
    )


def draft(settings: ServerSettings) -> Upstream:
    """A server with these settings that is not stored, to test its connection."""
    upstream = Upstream()
    _apply(upstream, settings)
    if settings.key:
        upstream.set_key(settings.key)
    upstream.set_secret_options(settings.secret_options)
    return upstream


def add(actor: User, settings: ServerSettings, *, is_enabled: bool = False) -> Upstream:
    """Adds a server, which is disabled unless its connection has been tested."""
    upstream = draft(settings)
    upstream.created_by = actor
    upstream.is_enabled = is_enabled
    with _unique_name(), transaction.atomic():
        upstream.save(force_insert=True)
        _record(
            actor,
            "upstream.add",
            upstream,
            base_url=upstream.base_url,
            dialect=upstream.dialect,
            key="set" if settings.key else "none",
            **_named(sorted(settings.secret_options), "secret_options_set"),
        )
    return upstream


def change(actor: User, upstream: Upstream, settings: ServerSettings) -> ServerChange:
    """Applies the form to the current row, whatever it was when the form was opened.

    Secrets belong to scheme, host and port. If one of these changes, the stored key and secret
    options are dropped in the same update, unless new ones were given.
    """
    with _unique_name(), transaction.atomic():
        current = Upstream.objects.select_for_update().get(pk=upstream.pk)
        before = _facts(current)
        _apply(current, settings)
        has_moved = origin(str(before["base_url"])) != origin(current.base_url)
        key, key_was_dropped = _change_key(current, settings, has_moved=has_moved)
        secrets, options_were_dropped = _change_secrets(current, settings, has_moved=has_moved)
        changed = _differences(before, _facts(current)) | secrets
        if key:
            changed["key"] = key
        if {"base_url", "dialect", "key"} & changed.keys():
            # The last test was of another server, or of another key.
            current.probe, current.probed_at = [], None
        current.save()
        if changed:
            _record(actor, "upstream.change", current, **changed)
    return ServerChange(
        upstream=current,
        key_was_dropped=key_was_dropped,
        options_were_dropped=options_were_dropped,
    )


def set_enabled(actor: User, upstream: Upstream, *, is_enabled: bool) -> bool:
    """Offers the server in the composer, or stops offering it. Returns whether this changed
    anything."""
    with transaction.atomic():
        changed = Upstream.objects.filter(pk=upstream.pk, is_enabled=not is_enabled).update(
            is_enabled=is_enabled
        )
        if changed:
            _record(actor, "upstream.enable" if is_enabled else "upstream.disable", upstream)
    return bool(changed)


def set_models_enabled(
    actor: User, upstream: Upstream, *, is_enabled: bool, model: str | None = None
) -> bool:
    """Offers one model, or all of them, in the composer, or stops offering them. Returns whether
    this changed anything."""
    with transaction.atomic():
        current = Upstream.objects.select_for_update().get(pk=upstream.pk)
        before = _names_off(current.model_list)
        switches = _switches(current.model_list)
        if model is not None:
            switches[model] = not is_enabled
        elif is_enabled:
            # A model that isn't offered by its name needs a decision of its own.
            switches = {}
        else:
            switches = {str(entry["id"]): True for entry in current.model_list}
        model_list = _with_switches(current.model_list, switches)
        after = _names_off(model_list)
        if after == before:
            return False
        current.model_list = model_list
        current.save(update_fields=["model_list"])
        change = {"from": sorted(before), "to": sorted(after)}
        _record(actor, "upstream.change", current, disabled_models=change)
    return True


def set_draining(actor: User, upstream: Upstream, *, is_draining: bool) -> bool:
    """Stops starting runs at this server (new ones wait in the queue), or resumes. Returns whether
    this changed anything.

    A claim locks the server's row first, so no run starts after this commit that had not started
    before.
    """
    with transaction.atomic():
        changed = Upstream.objects.filter(pk=upstream.pk, is_draining=not is_draining).update(
            is_draining=is_draining
        )
        if changed:
            _record(actor, "upstream.drain" if is_draining else "upstream.resume", upstream)
            # Waiting runs may start, and the people who watch the queue are told.
            notify.publish_after_commit(notify.QUEUED)
            notify.publish_after_commit(notify.ROOMS)
    return bool(changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many runs of a server are active, and how many are waiting."""

    running: int = 0
    waiting: int = 0


def loads(upstreams: Iterable[Upstream]) -> dict[int, Load]:
    """The loads by primary key, in one query."""
    keys = [upstream.pk for upstream in upstreams]
    rows = Run.objects.filter(upstream_id__in=keys, status__in=LIVE_STATUSES)
    counts: dict[int, dict[str, int]] = {key: {} for key in keys}
    for key, status, count in rows.values_list("upstream_id", "status").annotate(Count("pk")):
        counts[key][status] = count
    return {
        key: Load(running=count.get(RunStatus.RUNNING, 0), waiting=count.get(RunStatus.QUEUED, 0))
        for key, count in counts.items()
    }


def delete(actor: User, upstream: Upstream) -> None:
    """Deletes the server and its key; its answers stay. Refused while runs are active or waiting,
    because their runner would lose the settings."""
    with transaction.atomic():
        # The lock makes a new run, which refers to this row, wait for the decision.
        current = Upstream.objects.select_for_update().filter(pk=upstream.pk).first()
        if current is None:
            return
        live = Run.objects.filter(upstream=current, status__in=LIVE_STATUSES).count()
        if live:
            raise ActionRefused(_still_busy(live))
        _record(actor, "upstream.delete", current, base_url=current.base_url)
        current.delete()


def record_probe(actor: User, upstream: Upstream, steps: Sequence[Mapping[str, object]]) -> bool:
    """Stores the steps of a connection test. Returns ``False`` and stores nothing if address or key
    changed during the test."""
    with transaction.atomic():
        kept = same_server(upstream).update(probe=list(steps), probed_at=timezone.now())
        states = {str(step["name"]): str(step["state"]) for step in steps}
        _record(actor, "upstream.test", upstream, steps=states)
    return bool(kept)


def take_advice(actor: User, upstream: Upstream, name: str) -> str:
    """Applies the setting that the last test recommended under this name. Returns it in words.

    Only stored advice counts: the button names an advice, not a value. Returns empty texts if
    another test has replaced the one that gave it.
    """
    with transaction.atomic():
        current = Upstream.objects.select_for_update().get(pk=upstream.pk)
        advice = next((each for each in _open_advice(current) if each["name"] == name), None)
        if advice is None:
            return ""
        before = _facts(current)
        if advice["target"] == "dialect":
            current.dialect = str(advice["value"])
            current.probe, current.probed_at = [], None
        else:
            current.options = {**current.options, name: advice["value"]}
            advice["is_taken"] = True
        current.save(update_fields=["dialect", "options", "probe", "probed_at"])
        _record(actor, "upstream.change", current, **_differences(before, _facts(current)))
    return str(advice["label"])


def take_correction(actor: User, upstream: Upstream, base_url: str) -> ServerChange | None:
    """Moves the server to the address at which the last test found it. Secrets of another origin are
    dropped as in `change`. ``None`` if the last test didn't offer this address."""
    with transaction.atomic():
        current = Upstream.objects.select_for_update().get(pk=upstream.pk)
        if current.is_demo or not any(base_url == step.get("correction") for step in current.probe):
            return None
        settings = ServerSettings(
            name=current.name,
            dialect=current.dialect,
            base_url=base_url,
            concurrency_limit=current.concurrency_limit,
            options=current.options,
            kept_secrets=frozenset(_stored_secrets(current)),
            parameters=current.parameters,
            typed_models=_typed_names(current.model_list),
        )
        return change(actor, current, settings)


def _open_advice(upstream: Upstream) -> Iterator[dict[str, object]]:
    """The advice of the last test that nobody has applied."""
    for step in upstream.probe:
        for advice in step.get("advice", ()):
            if not advice.get("is_taken"):
                yield advice


def record_models(actor: User, upstream: Upstream, models: Iterable[ModelEntry]) -> bool:
    """Replaces the models that the server listed, and keeps those that were typed. Returns
    ``False`` and stores nothing if address or key changed meanwhile."""
    with transaction.atomic():
        current = store_models(upstream, models)
        if current is None:
            return False
        listed = [entry for entry in current.model_list if not entry.get("is_typed")]
        _record(actor, "upstream.list_models", current, count=len(listed))
    return True


def store_models(upstream: Upstream, models: Iterable[ModelEntry]) -> Upstream | None:
    """As `record_models`, without an audit row: a runner reads the lists of all servers about every hour. Returns the
    changed row."""
    listed = [entry for entry in map(_listed, models) if entry][:MODEL_LIMIT]
    with transaction.atomic():
        current = same_server(upstream).select_for_update().first()
        if current is None:
            return None
        merged = _merge(listed, _typed_names(current.model_list))
        current.model_list = _with_switches(merged, _switches(current.model_list))
        current.models_listed_at = timezone.now()
        current.models_due_at, current.models_failures, current.models_error = None, 0, ""
        current.save(
            update_fields=[
                *("model_list", "models_listed_at"),
                *("models_due_at", "models_failures", "models_error"),
            ]
        )
    return current


def typed_models(upstream: Upstream) -> list[str]:
    return _typed_names(upstream.model_list)


# --- steps -----------------------------------------------------------------------


@contextmanager
def _unique_name() -> Iterator[None]:
    """Turns the database's error for a second server of the same name into a sentence."""
    try:
        yield
    except IntegrityError as error:
        raise ActionRefused(gettext("Another server already has this name.")) from error


def _apply(upstream: Upstream, settings: ServerSettings) -> None:
    upstream.name = settings.name
    upstream.dialect = settings.dialect
    upstream.base_url = normal_base_url(settings.base_url)
    upstream.concurrency_limit = settings.concurrency_limit
    upstream.options = dict(settings.options)
    upstream.parameters = dict(settings.parameters)
    listed = [entry for entry in upstream.model_list if not entry.get("is_typed")]
    merged = _merge(listed, settings.typed_models)
    upstream.model_list = _with_switches(merged, _switches(upstream.model_list))


def _change_key(
    upstream: Upstream, settings: ServerSettings, *, has_moved: bool
) -> tuple[str, bool]:
    """The change of the key, as a word for the audit row, and whether a new address dropped it."""
    if settings.key:
        upstream.set_key(settings.key)
        return "set", False
    if not upstream.has_key:
        return "", False
    if settings.clear_key:
        upstream.set_key("")
        return "cleared", False
    if has_moved:
        upstream.set_key("")
        return "dropped: another address", True
    return "", False


def _change_secrets(
    upstream: Upstream, settings: ServerSettings, *, has_moved: bool
) -> tuple[dict[str, object], bool]:
    """The changes of the secret options, by name for the audit row, and whether a new address (and
    not a person) dropped some of them."""
    stored = _stored_secrets(upstream)
    keepable = {name: value for name, value in stored.items() if name in settings.kept_secrets}
    kept = {} if has_moved else keepable
    wanted = {**kept, **settings.secret_options}
    if wanted != stored or (upstream.sealed_options and not wanted):
        upstream.set_secret_options(wanted)
    gone = sorted(stored.keys() - wanted.keys())
    detail = _named(sorted(settings.secret_options), "secret_options_set")
    detail |= _named(gone, "secret_options_removed")
    return detail, has_moved and bool(keepable.keys() - wanted.keys())


def _stored_secrets(upstream: Upstream) -> dict[str, object]:
    try:
        return upstream.open_secret_options()
    except DecryptionError:
        # Secrets that the present keys can't decrypt can't be kept.
        return {}


def _named(names: Sequence[str], label: str) -> dict[str, object]:
    return {label: list(names)} if names else {}


def _facts(upstream: Upstream) -> dict[str, object]:
    return {
        "name": upstream.name,
        "dialect": upstream.dialect,
        "base_url": upstream.base_url,
        "concurrency_limit": upstream.concurrency_limit,
        "options": dict(upstream.options),
        "parameters": dict(upstream.parameters),
        "typed_models": _typed_names(upstream.model_list),
    }


def _differences(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    return {
        name: {"from": before[name], "to": after[name]}
        for name in before
        if before[name] != after[name]
    }


def _typed_names(entries: Iterable[ModelEntry]) -> list[str]:
    return [str(entry["id"]) for entry in entries if entry.get("is_typed")]


def _merge(listed: Sequence[ModelEntry], typed: Iterable[str]) -> list[ModelEntry]:
    known = {entry["id"] for entry in listed}
    names = [name for name in dict.fromkeys(typed) if name not in known]
    return [
        *listed,
        *({"id": name, "label": name, "detail": {}, "is_typed": True} for name in names),
    ]


def _names_off(entries: Iterable[ModelEntry]) -> set[str]:
    return {str(entry["id"]) for entry in entries if is_chat_model(entry) and not is_offered(entry)}


def _switches(entries: Iterable[ModelEntry]) -> dict[str, bool]:
    """The models that administrators switched, by name: whether the model is off."""
    return {str(entry["id"]): bool(entry["is_off"]) for entry in entries if "is_off" in entry}


def _with_switches(entries: Iterable[ModelEntry], switches: Mapping[str, bool]) -> list[ModelEntry]:
    plain = ({name: value for name, value in each.items() if name != "is_off"} for each in entries)
    return [
        {**each, "is_off": switches[str(each["id"])]} if each["id"] in switches else each
        for each in plain
    ]


def _listed(entry: Mapping[str, object]) -> ModelEntry | None:
    """An entry of the server's list, cut to what is stored; ``None`` for a useless one."""
    name = str(entry["id"])
    if not name or len(name) > NAME_LIMIT:
        return None
    detail = entry.get("detail") or {}
    if len(json.dumps(detail)) > DETAIL_LIMIT_BYTES:
        detail = {}
    label = str(entry.get("label") or name)[:NAME_LIMIT]
    return {"id": name, "label": label, "detail": detail, "is_typed": False}


def same_server(upstream: Upstream) -> QuerySet[Upstream]:
    """The row, as long as nobody has changed where requests go, and with which secrets."""
    return Upstream.objects.filter(
        pk=upstream.pk,
        base_url=upstream.base_url,
        dialect=upstream.dialect,
        sealed_key=upstream.sealed_key,
        sealed_options=upstream.sealed_options,
    )


def _still_busy(live: int) -> str:
    text = ngettext(
        "This server still has %(count)d active or queued run. "
        "Disable the server and wait for it, or stop it; then delete the server.",
        "This server still has %(count)d active or queued runs. "
        "Disable the server and wait for them, or stop them; then delete the server.",
        live,
    )
    return text % {"count": live}


def _record(actor: User, verb: str, upstream: Upstream, **detail: object) -> None:
    target = f"{upstream.name} {upstream.public_id}"
    AuditEvent.objects.record(actor, verb, target=target, **detail)  # type: ignore[arg-type]
