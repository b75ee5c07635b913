"""The connection test of the settings pages: one step after the other, in plain words."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import httpx
from django.utils.translation import gettext, gettext_noop, ngettext

from chat.dialects import DIALECTS
from chat.dialects.base import Dialect, ModelInfo, Prompt, ToolDefinition, UserTurn
from chat.dialects.event_counts import Seen, cleaned_kind, merged
from chat.events import ErrorInfo
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.advice import Advice, Adviser, Fact, facts_of, tool_fact
from chat.upstreams.client import UpstreamLimits, default_trust, join_url, list_models, stream
from chat.upstreams.failures import (
    UpstreamBroken,
    UpstreamError,
    UpstreamRefused,
    error_of,
    failure,
)
from chat.upstreams.redaction import Redactor, credentials_of
from chat.upstreams.stream_probe import ProbeObservation, StreamProbe
from chat.upstreams.transport import connect
from chat.wire.sse import EventTooLarge

# ``warning``: it works, and the person should know something about it.
State = Literal["running", "ok", "warning", "failed", "skipped"]

# The questions and the tool are for the model, in the language of most training data.
QUESTION = "Count from one to ten, in words."
# Enough for the answer, and for some reasoning before it.
MAX_TOKENS = 64
TOOL_QUESTION = "What time is it in Oslo? Use the tool."
TOOL = ToolDefinition(
    name="local_time",
    description="Tells the time of day in a city.",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)
# A reasoning model makes its call only after its reasoning.
MAX_TOOL_TOKENS = 512
# A server may refuse more than one member of a request.
MAX_MENDINGS = 2
_TOKEN_LIMITS = ("max_tokens", "max_output_tokens", "max_completion_tokens")
# A model may have to be loaded first. The whole test ends after this.
ANSWER_SECONDS = 300.0
PROBE_LIMITS = UpstreamLimits(connect_seconds=10, head_seconds=240, idle_seconds=60)
LIST_LIMITS = UpstreamLimits(connect_seconds=10, head_seconds=30, idle_seconds=30)

_LABELS = {
    "address": gettext_noop("Address"),
    "tls": gettext_noop("Encryption"),
    "key": gettext_noop("API key"),
    "models": gettext_noop("Models"),
    "answer": gettext_noop("Streamed answer"),
    "tools": gettext_noop("Tools"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStep:
    """One line of the test. ``text`` says what was found and, if it failed, what to do; ``detail``
    has technical details.

    Each step comes as ``running`` first, then once with its outcome. ``facts`` are what the server
    was seen to do, ``advice`` the settings that fit it better.
    """

    name: str
    label: str
    state: State
    text: str = ""
    detail: str = ""
    facts: tuple[Fact, ...] = ()
    advice: tuple[Advice, ...] = ()
    # The kinds of events that came, for the server's counts.
    seen: tuple[Seen, ...] = ()
    # What the server offers, if this step asked for it.
    models: tuple[ModelInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """What is tested. ``is_proxied``: an egress proxy makes the connections."""

    base_url: str
    dialect: Dialect
    key: str = ""
    model: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    trust: ssl.SSLContext | None = None
    is_proxied: bool = False


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
        yield replace(await take(), seen=tuple(steps.take_seen()))


def _step(name: str, state: State, text: str = "", detail: str = "") -> ProbeStep:
    label = gettext(_LABELS[name])
    return ProbeStep(name=name, label=label, state=state, text=text, detail=detail)


def _failed(name: str, info: ErrorInfo, detail: str = "") -> ProbeStep:
    status = f"HTTP {info.status}" if info.status else ""
    return _step(name, "failed", gettext(info.message), detail or status)


class _Probe:
    """The steps of one test, and what each leaves for the next."""

    def __init__(
        self, client: httpx.AsyncClient, policy: AddressPolicy, target: ProbeTarget
    ) -> None:
        self._client = client
        self._policy = policy
        self._target = target
        self._secrets = credentials_of(target.dialect, target.key, target.options)
        self._redactor = Redactor(self._secrets)
        self._url = httpx.URL()
        self._models: list[ModelInfo] = []
        self._list_error: UpstreamError | None = None
        self._addresses: list[str] = []
        self._model = ""
        self._has_answered = False
        self._learned: list[Advice] = []
        self._seen: list[Seen] = []
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

    def take_seen(self) -> list[Seen]:
        """The kinds of events that came since the last time."""
        seen, self._seen = self._seen, []
        return seen

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
            return self._end("address", error_of(error, has_output=False))
        text = gettext("The server can be reached.")
        return _step("address", "ok", text, ", ".join(self._addresses))

    async def tls(self) -> ProbeStep:
        if self._url.scheme == "http":
            return _step(
                "tls",
                "warning",
                gettext("Plain http: the connection isn’t encrypted."),
                _plain_warning(self._host),
            )
        if self._target.is_proxied:
            return _step("tls", "skipped", gettext("Checked by the next steps, through the proxy."))
        try:
            await self._connect(self._target.trust or default_trust())
        except httpx.TransportError as error:
            return self._end("tls", error_of(error, has_output=False))
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
            return self._key_error(error.info)
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

    def _key_error(self, info: ErrorInfo) -> ProbeStep:
        if info.kind in ("auth", "permission"):
            self.is_over = True
            return self._key_refused("key", info)
        if info.kind in ("network", "timeout"):
            return self._end("key", info)
        return _step("key", "skipped", gettext("Unknown: the model list couldn’t be read."))

    def _key_refused(self, name: str, info: ErrorInfo) -> ProbeStep:
        text = (
            gettext(
                "The server rejects the API key. Enter it again, or create a new one on the server."
            )
            if self._target.key
            else gettext("The server requires an API key. Enter one in the settings.")
        )
        return _step(name, "failed", text, f"HTTP {info.status}: {gettext(info.message)}")

    async def _models_error(self, info: ErrorInfo) -> ProbeStep:
        suggestion = await self._better_base_url(info)
        if suggestion:
            self.is_over = True
            text = gettext(
                "There is no model list at this address, but there is one at %(address)s. Use that "
                "as the server’s address."
            )
            return _step("models", "failed", text % {"address": suggestion}, gettext(info.message))
        if info.kind == "not_found":
            return _step(
                "models",
                "failed",
                gettext(
                    "The server has no model list at this address. Check the address (many end in "
                    "/v1) and the API type, or add names under Additional models."
                ),
                f"HTTP {info.status}",
            )
        return _failed("models", info)

    async def _better_base_url(self, info: ErrorInfo) -> str:
        """Another base URL of the same server that has a list, for a missing or extra ``/v1``."""
        if info.kind not in ("not_found", "protocol", "bad_request", "server", "unknown"):
            return ""
        base = self._target.base_url.strip().rstrip("/")
        for other in _neighbours(base):
            try:
                if await self._list(other):
                    return other
            except UpstreamError:
                continue
        return ""

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
        self._model = self._target.model or (self._models[0].id if self._models else "")
        if not self._model and self._target.dialect.models_path:
            text = gettext("There is no model to ask. Add a name under Additional models.")
            return _step("answer", "skipped", text)
        prompt = self._prompt(QUESTION, MAX_TOKENS)
        try:
            heard = await self._ask(prompt)
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
        prompt = replace(self._prompt(TOOL_QUESTION, MAX_TOOL_TOKENS), tools=(TOOL,))
        try:
            heard = await self._ask(prompt)
        except UpstreamError as error:
            return self._no_tools(error.info)
        if heard.error:
            return self._no_tools(self._redactor.error(heard.error))
        advice = [*self._learned, *self._adviser().of_call(heard)]
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

    async def _ask(self, prompt: Prompt) -> ProbeObservation:
        """One question. It is asked again as the dialect suggests if the server refuses a member of
        it. Raises ``UpstreamError``."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._ask_until_accepted(prompt)
        except TimeoutError as error:
            raise UpstreamBroken(failure("head_timeout")) from error
        except EventTooLarge as error:
            raise UpstreamBroken(failure("too_large")) from error

    async def _ask_until_accepted(self, prompt: Prompt) -> ProbeObservation:
        self._learned = []
        for _ in range(MAX_MENDINGS):
            try:
                return await self._listen(prompt)
            except UpstreamRefused as refusal:
                mended = self._target.dialect.after_refusal(prompt, refusal.info)
                if mended is None:
                    raise
                advice = self._adviser().of_refusal(mended.options, refusal.info.message)
                self._learned += [each for each in advice if each not in self._learned]
                prompt = mended
        return await self._listen(prompt)

    async def _listen(self, prompt: Prompt) -> ProbeObservation:
        dialect = self._target.dialect
        options = {**prompt.options, **prompt.parameters}
        hearing = StreamProbe(
            dialect.parser(model=prompt.model, endpoint=self._target.base_url, options=options)
        )
        try:
            async with stream(
                self._client,
                base_url=self._target.base_url,
                request=dialect.request(prompt),
                headers=dialect.headers(self._target.key, self._target.options),
                limits=PROBE_LIMITS,
                redactor=Redactor(self._secrets),
            ) as answer:
                return await hearing.listen(answer)
        finally:
            cleaned = [cleaned_kind(kind, self._redactor.text) for kind in hearing.heard.seen]
            self._seen = merged([*self._seen, *cleaned])

    def _prompt(self, question: str, max_tokens: int) -> Prompt:
        offered = [parameter.name for parameter in self._target.dialect.parameters]
        limits = [name for name in _TOKEN_LIMITS if name in offered]
        return Prompt(
            model=self._model,
            turns=(UserTurn(text=question),),
            parameters=dict.fromkeys(limits[:1], max_tokens),
            options=self._target.options,
        )

    def _answer_error(self, info: ErrorInfo) -> ProbeStep:
        self.is_over = True
        if info.kind in ("auth", "permission"):
            return self._key_refused("answer", info)
        if info.kind == "not_found":
            text = gettext(
                "The server doesn’t have the model “%(model)s”, or there is no API at this "
                "address. Check both, and the API type."
            ) % {"model": self._model}
            return _step("answer", "failed", text, gettext(info.message))
        return _failed("answer", info)

    def _verdict(self, heard: ProbeObservation) -> ProbeStep:
        detail = heard.summary()
        advice = (*self._learned, *self._adviser().of_answer(heard))
        if heard.error:
            failed = _failed("answer", self._redactor.error(heard.error), detail)
            return replace(failed, facts=self._cleaned(facts_of(heard)), advice=advice)
        if not heard.has_output:
            text = gettext("The server answered without any text. Check the API type.")
            failed = _step("answer", "failed", text, detail)
            return replace(failed, facts=self._cleaned(facts_of(heard)), advice=advice)
        return self._report("answer", self._answered(heard), heard, facts_of(heard), advice)

    def _answered(self, heard: ProbeObservation) -> str:
        if not self._model:
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
        return text % {"model": self._model}

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

    def _adviser(self) -> Adviser:
        return Adviser(self._target.dialect, self._target.options, DIALECTS)

    def _end(self, name: str, info: ErrorInfo) -> ProbeStep:
        self.is_over = True
        return _failed(name, info)


# Ends of a base URL that belong to the request, the longest first.
_TOO_LONG = ("/chat/completions", "/models", "/api/v1", "/v1")


class _Knock(asyncio.Protocol):
    """A connection that only shows that it can be made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def close(self) -> None:
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()


def _neighbours(base: str) -> list[str]:
    """Base URLs of the same server that people mean when they enter this one."""
    shorter = [base.removesuffix(end) for end in _TOO_LONG if base.endswith(end)]
    return shorter or [f"{base}/v1"]


def _plain_warning(host: str) -> str:
    if host in ("localhost", "127.0.0.1", "::1"):
        return gettext("This is fine for a server on the same machine.")
    return gettext(
        "Anyone on the network can read the API key and the conversations. Use plain http only "
        "inside a network you trust."
    )
