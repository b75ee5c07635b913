"""The questions that the connection test asks a model."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from chat.dialects import DIALECTS
from chat.dialects.base import Dialect, Prompt, ToolDefinition, UserTurn
from chat.dialects.event_counts import Seen, cleaned_kind, merged
from chat.upstreams.advice import Advice, Adviser
from chat.upstreams.client import UpstreamLimits, stream
from chat.upstreams.corrections import NOWHERE, UsualPlaces
from chat.upstreams.failures import UpstreamBroken, UpstreamRefused, failure
from chat.upstreams.redaction import Redactor, credentials_of
from chat.upstreams.stream_probe import ProbeObservation, StreamProbe
from chat.wire.sse import EventTooLarge

# The questions and the tool are for the model, in the language of most training data.
QUESTION = "Count from one to ten, in words."
# Room for the answer, and for some reasoning before it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """The server to be tested. ``is_proxied``: an egress proxy makes the connections. ``places``: where else a
    server may listen if none does at ``base_url``."""

    base_url: str
    dialect: Dialect
    key: str = ""
    model: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    trust: ssl.SSLContext | None = None
    is_proxied: bool = False
    places: UsualPlaces = NOWHERE


class ModelRequests:
    """Asks one ``model`` of the server, which is set once it is known. ``learned`` is the advice from
    what the server refused in the last question."""

    def __init__(self, client: httpx.AsyncClient, target: ProbeTarget) -> None:
        self._client = client
        self._target = target
        self._secrets = credentials_of(target.dialect, target.key, target.options)
        self.redactor = Redactor(self._secrets)
        self.adviser = Adviser(target.dialect, target.options, DIALECTS)
        self.model = ""
        self.learned: list[Advice] = []
        self._seen: list[Seen] = []

    def pop_seen(self) -> tuple[Seen, ...]:
        """The kinds of events that have come since the last call."""
        seen, self._seen = self._seen, []
        return tuple(seen)

    def prompt(self, question: str, max_tokens: int) -> Prompt:
        offered = [parameter.name for parameter in self._target.dialect.parameters]
        limits = [name for name in _TOKEN_LIMITS if name in offered]
        return Prompt(
            model=self.model,
            turns=(UserTurn.of(question),),
            parameters=dict.fromkeys(limits[:1], max_tokens),
            options=self._target.options,
        )

    async def ask(self, prompt: Prompt) -> ProbeObservation:
        """Asks one question, again as the dialect suggests if the server refuses a member of it.
        Raises ``UpstreamError``."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._ask_until_accepted(prompt)
        except TimeoutError as error:
            raise UpstreamBroken(failure("head_timeout")) from error
        except EventTooLarge as error:
            raise UpstreamBroken(failure("too_large")) from error

    async def _ask_until_accepted(self, prompt: Prompt) -> ProbeObservation:
        self.learned = []
        for _ in range(MAX_MENDINGS):
            try:
                return await self._listen(prompt)
            except UpstreamRefused as refusal:
                mended = self._target.dialect.after_refusal(prompt, refusal.info)
                if mended is None:
                    raise
                advice = self.adviser.of_refusal(mended.options, refusal.info.message)
                self.learned += [each for each in advice if each not in self.learned]
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
            cleaned = [cleaned_kind(kind, self.redactor.text) for kind in hearing.heard.seen]
            self._seen = merged([*self._seen, *cleaned])
