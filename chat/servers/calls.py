"""Requests that the settings pages make to a server: the connection test, and the list of
models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils.translation import gettext, gettext_noop

from chat.core.encryption import DecryptionError
from chat.dialects import DIALECTS
from chat.dialects.base import Dialect, ModelInfo
from chat.dialects.event_counts import Seen, merged
from chat.dialects.stream import object_of, objects_of, whole_of
from chat.models import Upstream
from chat.servers.actions.servers import MOST_CONCURRENT, ModelEntry, typed_models
from chat.servers.discovery import usual_places
from chat.upstreams.client import Client, list_models
from chat.upstreams.configured import configured_client, configured_policy
from chat.upstreams.failures import UpstreamError
from chat.upstreams.probe import ProbeStep, probe
from chat.upstreams.probe_requests import ProbeTarget

# A person waits for the page. A model that takes longer to load is a result, too.
PROBE_SECONDS = 60
LIST_SECONDS = 30

Steps = list[dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReport:
    """A connection test as plain values: each step with its outcome, the kinds of events that came,
    and the models that the server offers."""

    steps: Steps
    seen: tuple[Seen, ...] = ()
    models: tuple[ModelEntry, ...] = ()

    @property
    def has_passed(self) -> bool:
        return self.failed_step is None

    @property
    def failed_step(self) -> dict[str, object] | None:
        """The first step that failed: it says what is wrong."""
        return next((step for step in self.steps if step["state"] == "failed"), None)

    @property
    def own_limit(self) -> int | None:
        """The smallest number of answers that one of the loaded models gives at a time, if the server tells
        (LM Studio does)."""
        limits = (
            whole_of(object_of(instance, "config"), "parallel")
            for model in self.models
            for instance in objects_of(object_of(model, "detail"), "loaded_instances")
        )
        return min((each for each in limits if each and 0 < each <= MOST_CONCURRENT), default=None)


KEY_UNREADABLE = gettext_noop(
    "The stored API key can’t be decrypted with this installation’s encryption keys. "
    "Enter the key again and save."
)
OPTIONS_UNREADABLE = gettext_noop(
    "The stored secret options can’t be decrypted with this installation’s encryption keys. "
    "Enter them again and save."
)
UNKNOWN_DIALECT = gettext_noop("This API type is no longer supported. Choose another one and save.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The server's models, or a sentence that says why there are none."""

    models: tuple[ModelEntry, ...] = ()
    error: str = ""


class NotAskable(Exception):
    """The settings are not sufficient for a request; ``str()`` says what is missing."""


def run_probe(upstream: Upstream, *, model: str = "") -> ConnectionReport:
    """Runs the connection test. It takes a minute at most."""
    try:
        target = target_of(upstream, model)
    except NotAskable as reason:
        step = ProbeStep(
            name="key", label=gettext("API key"), state="failed", text=str(reason), subject="key"
        )
        return ConnectionReport(steps=[_plain(step)])
    steps = async_to_sync(_probe)(target)
    seen = merged(kind for step in steps for kind in step.seen)
    models = [model for step in steps for model in step.models]
    return ConnectionReport(
        steps=[_plain(step) for step in steps], seen=tuple(seen), models=_entries(models)
    )


def _plain(step: ProbeStep) -> dict[str, object]:
    """The part of a step that is stored and shown. Event kinds and models are stored elsewhere."""
    values = asdict(replace(step, seen=(), models=()))
    del values["seen"], values["models"]
    return values


def _entries(models: Iterable[ModelInfo]) -> tuple[ModelEntry, ...]:
    return tuple({"id": model.id, "label": model.label, "detail": model.detail} for model in models)


def ask_for_models(upstream: Upstream) -> Listing:
    """Requests the server's list of models."""
    try:
        return async_to_sync(_list)(target_of(upstream))
    except NotAskable as reason:
        return Listing(error=str(reason))


def target_of(upstream: Upstream, model: str = "") -> ProbeTarget:
    """Raises ``NotAskable``."""
    known = {str(entry["id"]) for entry in upstream.model_list}
    return ProbeTarget(
        base_url=upstream.base_url,
        dialect=_dialect(upstream),
        key=_key(upstream),
        model=model if model in known else _first_typed(upstream),
        options=_options(upstream),
        is_proxied=bool(settings.UPSTREAM_PROXY),
        places=usual_places(),
    )


def _dialect(upstream: Upstream) -> Dialect:
    dialect = DIALECTS.get(upstream.dialect)
    if dialect is None:
        raise NotAskable(gettext(UNKNOWN_DIALECT))
    return dialect


def _key(upstream: Upstream) -> str:
    try:
        return upstream.open_key()
    except DecryptionError:
        raise NotAskable(gettext(KEY_UNREADABLE)) from None


def _options(upstream: Upstream) -> dict[str, object]:
    try:
        return upstream.all_options()
    except DecryptionError:
        raise NotAskable(gettext(OPTIONS_UNREADABLE)) from None


def _first_typed(upstream: Upstream) -> str:
    """A name that was typed, if the server's own list is empty; otherwise the test picks one."""
    has_list = any(not entry.get("is_typed") for entry in upstream.model_list)
    return "" if has_list else next(iter(typed_models(upstream)), "")


async def _probe(target: ProbeTarget) -> list[ProbeStep]:
    steps: dict[str, ProbeStep] = {}
    client = configured_client()
    try:
        async with (
            client,
            asyncio.timeout(PROBE_SECONDS),
            aclosing(probe(client, configured_policy(), target)) as found,
        ):
            async for step in found:
                steps[step.name] = step
    except TimeoutError:
        pass  # The step that was running reports this.
    return [_ended(step) for step in steps.values()]


def _ended(step: ProbeStep) -> ProbeStep:
    if step.state != "running":
        return step
    text = gettext(
        "Stopped after %(seconds)d seconds without a result. "
        "A large model may still be loading; try again in a moment."
    ) % {"seconds": PROBE_SECONDS}
    return replace(step, state="failed", text=text)


async def _list(target: ProbeTarget) -> Listing:
    async with configured_client() as client:
        return await read_list(client, target)


async def read_list(client: Client, target: ProbeTarget) -> Listing:
    """The server's models, or why there are none."""
    try:
        async with asyncio.timeout(LIST_SECONDS):
            models = await list_models(
                client,
                base_url=target.base_url,
                dialect=target.dialect,
                key=target.key,
                options=target.options,
            )
    except UpstreamError as error:
        return Listing(error=gettext(error.info.message))
    except TimeoutError:
        return Listing(
            error=gettext("The server didn’t send its model list in time. Try again in a moment.")
        )
    if not models:
        return Listing(
            error=gettext("The server’s model list is empty. Load a model on the server first.")
        )
    return Listing(models=_entries(models))
