"""The connection test of the settings pages: one step after the other, in plain words."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Literal

import httpx
from django.utils.translation import gettext, gettext_noop, ngettext

from chat.dialects.base import ModelInfo
from chat.dialects.event_counts import Seen
from chat.events import ErrorInfo
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.advice import Advice, Fact, facts_of, tool_fact
from chat.upstreams.client import UpstreamLimits, default_trust, join_url, list_models
from chat.upstreams.corrections import (
    CorrectionSearch,
    other_listeners,
    other_scheme,
)
from chat.upstreams.failures import (
    UpstreamError,
    error_of,
)
from chat.upstreams.probe_requests import (
    MAX_TOKENS,
    MAX_TOOL_TOKENS,
    PROBE_LIMITS,
    QUESTION,
    TOOL,
    TOOL_QUESTION,
    ModelRequests,
    ProbeTarget,
)
from chat.upstreams.stream_probe import ProbeObservation
from chat.upstreams.transport import connect

# ``warning``: it works, with a remark.
State = Literal["running", "ok", "warning", "failed", "skipped"]
# The setting that a step is about.
Subject = Literal["address", "key", "model"]

# Errors of a server for a path that it doesn't have.
_WRONG_PATH = ("not_found", "protocol", "bad_request", "server", "unknown")
# Errors of a server that expects https for plain http, besides 400.
_SENT_ELSEWHERE = ("redirect", "not_http", "closed_early")
LIST_LIMITS = UpstreamLimits(connect_seconds=10, head_seconds=30, idle_seconds=30)

_LABELS = {
    "address": gettext_noop("Address"),
    "tls": gettext_noop("Encryption"),
    "key": gettext_noop("API key"),
    "models": gettext_noop("Models"),
    "answer": gettext_noop("Streamed answer"),
    "tools": gettext_noop("Tools"),
}
_SUBJECTS: dict[str, Subject] = {
    "address": "address",
    "tls": "address",
    "key": "key",
    "models": "model",
    "answer": "model",
    "tools": "model",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStep:
    """One line of the test. ``text`` says what was found and, if it failed, what to do; ``detail``
    has technical details.

    Each step comes as ``running`` first, then once with its outcome. ``facts`` are observations,
    ``advice`` the settings that fit the server better, and ``correction`` is the base URL at which
    it answers instead of the tested one.
    """

    name: str
    label: str
    state: State
    text: str = ""
    detail: str = ""
    subject: Subject = "address"
    correction: str = ""
    facts: tuple[Fact, ...] = ()
    advice: tuple[Advice, ...] = ()
    # The kinds of events that came, for the server's counts.
    seen: tuple[Seen, ...] = ()
    # The server's models, if this step asked for them.
    models: tuple[ModelInfo, ...] = ()


async def probe(
    client: httpx.AsyncClient, policy: AddressPolicy, target: ProbeTarget
) -> AsyncIterator[ProbeStep]:
    """Yields the steps as they happen. If a step that others need fails, the test ends and the rest
    is reported as skipped. It raises for nothing that a server does."""
    steps = _Probe(client, policy, target)
    for name, take in steps.in_order():
        if steps.is_over:
            yield _step(name, "skipped", gettext("Not tested because an earlier step failed."))
            continue
        yield _step(name, "running")
        yield replace(await take(), seen=steps.pop_seen())


def _step(name: str, state: State, text: str = "", detail: str = "") -> ProbeStep:
    label = gettext(_LABELS[name])
    return ProbeStep(
        name=name, label=label, state=state, text=text, detail=detail, subject=_SUBJECTS[name]
    )


def _failed(name: str, info: ErrorInfo, detail: str = "") -> ProbeStep:
    status = f"HTTP {info.status}" if info.status else ""
    return _step(name, "failed", gettext(info.message), detail or status)


class _Probe:
    """The steps of one test, and the results that later ones need."""

    def __init__(
        self, client: httpx.AsyncClient, policy: AddressPolicy, target: ProbeTarget
    ) -> None:
        self._client = client
        self._policy = policy
        self._target = target
        self._requests = ModelRequests(client, target)
        self._redactor = self._requests.redactor
        self._adviser = self._requests.adviser
        self._url = httpx.URL()
        self._models: list[ModelInfo] = []
        self._list_error: UpstreamError | None = None
        self._addresses: list[str] = []
        self._has_answered = False
        self.is_over = False

    def in_order(self) -> list[tuple[str, Callable[[], Awaitable[ProbeStep]]]]:
        return [
            ("address", self.address),
            ("tls", self.tls),
            ("key", self.key),
            ("models", self.models),
            ("answer", self.answer),
            ("tools", self.tools),
        ]

    def pop_seen(self) -> tuple[Seen, ...]:
        """The kinds of events that have come since the last call."""
        return self._requests.pop_seen()

    # --- address and encryption -----------------------------------------------------

    async def address(self) -> ProbeStep:
        try:
            self._url = httpx.URL(join_url(self._target.base_url, ""))
            if self._target.is_proxied:
                return _step(
                    "address", "skipped", gettext("The egress proxy makes the connection.")
                )
            await self._connect(None)
        except (UpstreamError, httpx.TransportError) as error:
            info = error_of(error, has_output=False)
            others = self._other_listeners() if info.code == "connection_refused" else []
            return await self._end_or_correct("address", info, others)
        text = gettext("The server can be reached.")
        return _step("address", "ok", text, ", ".join(self._addresses))

    async def tls(self) -> ProbeStep:
        if self._url.scheme == "http":
            return _step(
                "tls",
                "warning",
                gettext("Plain HTTP: the connection isn’t encrypted."),
                _plain_warning(self._host),
            )
        if self._target.is_proxied:
            return _step("tls", "skipped", gettext("Checked by the next steps, through the proxy."))
        try:
            await self._connect(self._target.trust or default_trust())
        except httpx.TransportError as error:
            info = error_of(error, has_output=False)
            # An invalid certificate is no reason to do without encryption.
            others = [other_scheme(self._target.base_url)] if info.code == "tls" else []
            return await self._end_or_correct("tls", info, others)
        return _step("tls", "ok", gettext("The certificate is valid for this host name."))

    async def _connect(self, ssl_context: ssl.SSLContext | None) -> None:
        protocol = await connect(
            _Knock,
            self._host,
            self._port,
            resolve=self._resolve,
            ssl_context=ssl_context,
            seconds=PROBE_LIMITS.connect_seconds,
        )
        protocol.close()

    async def _resolve(self, host: str, port: int) -> list[str]:
        self._addresses = await self._policy.resolve(host, port)
        return self._addresses

    @property
    def _host(self) -> str:
        return self._url.raw_host.decode("ascii")

    @property
    def _port(self) -> int:
        return self._url.port or (443 if self._url.scheme == "https" else 80)

    # --- key and models, from one request ----------------------------------------------

    async def key(self) -> ProbeStep:
        if not self._target.dialect.models_path:
            text = gettext("This API type can’t check the key by itself. See the streamed answer.")
            return _step("key", "skipped", text)
        try:
            self._models = await self._list(self._target.base_url)
        except UpstreamError as error:
            self._list_error = error
            return await self._key_error(error.info)
        if self._target.key:
            return _step("key", "ok", gettext("The server accepts the API key."))
        return _step("key", "ok", gettext("The server lists its models without an API key."))

    async def models(self) -> ProbeStep:
        if not self._target.dialect.models_path:
            text = gettext("This API type has no model list. Add names under Additional models.")
            return _step("models", "skipped", text)
        if self._list_error:
            return await self._models_error(self._list_error.info)
        if not self._models:
            return _step(
                "models",
                "failed",
                gettext(
                    "The server’s model list is empty. Load or download a model on the server, or "
                    "add names under Additional models."
                ),
            )
        count = len(self._models)
        text = ngettext(
            "The server offers %(count)d model.", "The server offers %(count)d models.", count
        ) % {"count": count}
        names = ", ".join(model.id for model in self._models[:10])
        return replace(_step("models", "ok", text, names), models=tuple(self._models))

    async def _key_error(self, info: ErrorInfo) -> ProbeStep:
        if info.kind in ("auth", "permission"):
            self.is_over = True
            return self._key_refused("key", info)
        if info.kind in ("network", "timeout"):
            step = await self._end_or_correct("key", info, self._encrypted(info))
            return replace(step, subject="address")
        return _step("key", "skipped", gettext("Unknown: the model list couldn’t be read."))

    def _key_refused(self, name: str, info: ErrorInfo) -> ProbeStep:
        text = (
            gettext(
                "The server rejected the API key. Enter it again, or create a new one on the server."
            )
            if self._target.key
            else gettext("The server requires an API key. Enter one in the settings.")
        )
        return _step(name, "failed", text, f"HTTP {info.status}: {gettext(info.message)}")

    async def _models_error(self, info: ErrorInfo) -> ProbeStep:
        if info.kind in _WRONG_PATH:
            correction = await self._search().first(self._encrypted(info), with_paths=True)
            if correction:
                self.is_over = True
                return self._corrected("models", info, correction)
        if info.kind == "not_found":
            step = _step(
                "models",
                "failed",
                gettext(
                    "The server has no model list at this address. Check the address (many end in "
                    "/v1) and the API type, or add names under Additional models."
                ),
                f"HTTP {info.status}",
            )
        else:
            step = _failed("models", info)
        return replace(step, subject="address")

    # --- the address that was meant ----------------------------------------------------

    def _other_listeners(self) -> list[str]:
        is_private = all(ip_address(address).is_private for address in self._addresses)
        places = self._target.places
        return list(other_listeners(self._target.base_url, places, is_private=is_private))

    def _encrypted(self, info: ErrorInfo) -> list[str]:
        """The same address with https, if plain http may be the mistake."""
        is_plain = self._url.scheme == "http" and not self._target.is_proxied
        may_be = self._url.port is None or info.code in _SENT_ELSEWHERE or info.status == 400
        return [other_scheme(self._target.base_url)] if is_plain and may_be else []

    def _shortened(self, info: ErrorInfo) -> str:
        """The base URL without the path of a request. Without a list of models, only another answer
        could show that the server works there."""
        has_list = bool(self._models)
        return "" if has_list or info.kind not in _WRONG_PATH else self._search().shortened

    def _search(self) -> CorrectionSearch:
        target = self._target
        path = target.dialect.request(self._requests.prompt(QUESTION, MAX_TOKENS)).path
        return CorrectionSearch(
            self._client,
            base_url=target.base_url,
            dialect=target.dialect,
            key=target.key,
            options=target.options,
            endpoints=(target.dialect.models_path, path),
        )

    async def _end_or_correct(self, name: str, info: ErrorInfo, others: Iterable[str]) -> ProbeStep:
        self.is_over = True
        correction = await self._search().first(others)
        return self._corrected(name, info, correction) if correction else _failed(name, info)

    def _corrected(self, name: str, info: ErrorInfo, correction: str) -> ProbeStep:
        text = gettext("This address doesn’t work, but the server answers at %(address)s.")
        step = _step(name, "failed", text % {"address": correction}, gettext(info.message))
        return replace(step, subject="address", correction=correction)

    async def _list(self, base_url: str) -> list[ModelInfo]:
        return await list_models(
            self._client,
            base_url=base_url,
            dialect=self._target.dialect,
            key=self._target.key,
            options=self._target.options,
            limits=LIST_LIMITS,
        )

    # --- one answer, and one call of a tool -----------------------------------------------

    async def answer(self) -> ProbeStep:
        self._requests.model = self._target.model or (self._models[0].id if self._models else "")
        if not self._requests.model and self._target.dialect.models_path:
            text = gettext("There is no model to ask. Add a name under Additional models.")
            return _step("answer", "skipped", text)
        prompt = self._requests.prompt(QUESTION, MAX_TOKENS)
        try:
            heard = await self._requests.ask(prompt)
        except UpstreamError as error:
            return self._answer_error(error.info)
        step = self._verdict(heard)
        self._has_answered = step.state == "ok"
        return step

    async def tools(self) -> ProbeStep:
        if not self._target.dialect.takes_tools:
            text = gettext("This API type can’t use your team’s tools.")
            return _step("tools", "skipped", text)
        if not self._has_answered:
            return _step("tools", "skipped", gettext("Not tested because there was no answer."))
        prompt = replace(self._requests.prompt(TOOL_QUESTION, MAX_TOOL_TOKENS), tools=(TOOL,))
        try:
            heard = await self._requests.ask(prompt)
        except UpstreamError as error:
            return self._no_tools(error.info)
        if heard.error:
            return self._no_tools(self._redactor.error(heard.error))
        advice = [*self._requests.learned, *self._adviser.of_call(heard)]
        text = (
            gettext("The model called the tool it was offered.")
            if heard.calls
            else gettext("The model answered without the tool. It may not support tools.")
        )
        facts = ((gettext("Tool arguments"), tool_fact(heard)),)
        return self._report("tools", text, heard, facts, advice)

    def _no_tools(self, info: ErrorInfo) -> ProbeStep:
        """A server without tools is not broken."""
        is_refused = info.kind in ("bad_request", "not_found", "server", "unknown")
        text = (
            gettext("The server doesn’t support tools.")
            if is_refused
            else gettext("Unknown: the request failed.")
        )
        return _step("tools", "skipped", text, gettext(info.message))

    def _answer_error(self, info: ErrorInfo) -> ProbeStep:
        self.is_over = True
        if info.kind in ("auth", "permission"):
            return replace(self._key_refused("answer", info), subject="key")
        shortened = self._shortened(info)
        if shortened:
            return self._corrected("answer", info, shortened)
        if info.kind == "not_found":
            text = gettext(
                "The server doesn’t have the model “%(model)s”, or there is no API at this "
                "address. Check both, and the API type."
            ) % {"model": self._requests.model}
            return _step("answer", "failed", text, gettext(info.message))
        return _failed("answer", info)

    def _verdict(self, heard: ProbeObservation) -> ProbeStep:
        detail = heard.summary()
        advice = (*self._requests.learned, *self._adviser.of_answer(heard))
        if heard.error:
            info = self._redactor.error(heard.error)
            shortened = self._shortened(info)
            if shortened:
                return self._corrected("answer", info, shortened)
            failed = _failed("answer", info, detail)
            return replace(failed, facts=self._cleaned(facts_of(heard)), advice=advice)
        if not heard.has_output:
            text = gettext("The server answered without any text. Check the API type.")
            failed = _step("answer", "failed", text, detail)
            return replace(failed, facts=self._cleaned(facts_of(heard)), advice=advice)
        return self._report("answer", self._answered(heard), heard, facts_of(heard), advice)

    def _answered(self, heard: ProbeObservation) -> str:
        if not self._requests.model:
            return (
                gettext("The server streamed its answer.")
                if heard.is_event_stream
                else gettext("The server answered in one piece: it doesn’t stream.")
            )
        text = (
            gettext("%(model)s streamed its answer.")
            if heard.is_event_stream
            else gettext("%(model)s answered in one piece: the server doesn’t stream.")
        )
        return text % {"model": self._requests.model}

    def _report(
        self,
        name: str,
        text: str,
        heard: ProbeObservation,
        facts: tuple[Fact, ...],
        advice: Iterable[Advice],
    ) -> ProbeStep:
        step = _step(name, "ok", text, heard.summary())
        return replace(step, facts=self._cleaned(facts), advice=tuple(advice))

    def _cleaned(self, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
        return tuple((label, self._redactor.text(value)) for label, value in facts)


class _Knock(asyncio.Protocol):
    """A connection that only shows that it can be made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def close(self) -> None:
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()


def _plain_warning(host: str) -> str:
    if host in ("localhost", "127.0.0.1", "::1"):
        return gettext("This is fine for a server on the same machine.")
    return gettext(
        "Anyone on the network can read the API key and the conversations. Use plain http only "
        "inside a network you trust."
    )
