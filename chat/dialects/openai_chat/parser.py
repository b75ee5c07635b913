"""The stream of chat completions, in the variations of many servers."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, cast

import msgspec
from msgspec import Struct

from chat.dialects.errors import error_of
from chat.dialects.finish_reasons import error_kind_of, reason_of, status_of
from chat.dialects.openai.usage import read_usage
from chat.dialects.openai_chat import tool_status
from chat.dialects.openai_chat.choice import ChoiceState
from chat.dialects.openai_chat.tool_status import ToolStatuses
from chat.dialects.parameters import Values
from chat.dialects.stream import (
    CALLS_WAIT,
    StreamParser,
    number_of,
    objects_of,
    text_of,
    whole_of,
)
from chat.dialects.thinking import Mode
from chat.dialects.vendor_errors import is_bare_error
from chat.events import (
    Ending,
    Event,
    Json,
    JsonObject,
    PromptProcessingEnd,
    PromptProcessingProgress,
    PromptProcessingStart,
    ReplayData,
    Stop,
    Usage,
    UsageUpdate,
)
from chat.events.translation import gettext_noop
from chat.wire.sse import Frame

NO_ANSWER_MESSAGE = gettext_noop("The server sent no answer.")

# Token ids and raw prompts are for debugging the server; a run keeps their first part.
_MOST_DEBUG_ENTRIES = 1000
_MOST_DEBUG_CHARACTERS = 64 * 1024

_HANDLED = frozenset(("id", "object", "created", "model", "choices", "usage", "error", "type"))
# MiniMax' ``base_resp`` is an error unless its code is 0.
_IGNORED = frozenset(("obfuscation", "base_resp"))
_FACTS = ("service_tier", "system_fingerprint", "provider")
# The names of Fireworks, and of llama.cpp.
_PERFORMANCE = frozenset(("perf_metrics", "timings"))
# Perplexity's names. Results have titles, so they come before the bare addresses.
_SOURCES = ("search_results", "citations")
_DEBUG = frozenset(("prompt_token_ids", "token_ids", "raw_output"))


# --- the fast path ------------------------------------------------------------------
# Nearly every chunk of a long answer is one piece of text and nothing else. These types accept
# exactly that; other chunks are parsed by the general code, which gives the same events. It saves a
# quarter of what a delta costs on its way to a browser.


class _QuickDelta(Struct, forbid_unknown_fields=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    role: Literal["assistant"] | None = None


class _QuickChoice(Struct, forbid_unknown_fields=True):
    delta: _QuickDelta
    index: int = 0
    finish_reason: None = None
    logprobs: None = None
    # Sent as null with every chunk, by OpenRouter and by vLLM.
    native_finish_reason: None = None
    stop_reason: None = None
    token_ids: None = None


class QuickChunk(Struct, forbid_unknown_fields=True):
    """The members of every quick chunk that are about the whole answer."""

    id: str = ""
    object: str = ""
    created: int | float | None = None
    model: str = ""
    service_tier: str | None = None
    system_fingerprint: str | None = None
    provider: str | None = None
    usage: None = None


class _QuickChunk(QuickChunk, forbid_unknown_fields=True, kw_only=True):
    choices: tuple[_QuickChoice]
    obfuscation: str = ""


# Formats of a request whose media type has another name.
_AUDIO_TYPES: Mapping[str, str] = {"mp3": "mpeg", "pcm16": "L16"}

# A choice and the member that has its text; then the same with the text.
Target = tuple[ChoiceState, str]
Saying = tuple[Target, str]


_quick_decoder = msgspec.json.Decoder(_QuickChunk)


class OpenAiChatParser(StreamParser):
    """Turns chunks into events.

    Dialects that extend this one override ``on_extension``, ``on_unknown_member``, ``native_turn``
    and ``needs_done``; if their choices hold the text elsewhere, also ``text_members``,
    ``delta_of`` and ``read_chunk``.
    """

    # True if a stream that ends after its finish reason is incomplete.
    needs_done: ClassVar[bool] = True
    has_fast_path: ClassVar[bool] = True
    # True if each choice keeps its text in the upstream's own form.
    looks_back: ClassVar[bool] = False
    # The members of a choice that contain its text.
    text_members: ClassVar[frozenset[str]] = frozenset(("delta", "message"))

    def __init__(self, *, dialect: str, model: str, endpoint: str, options: Values) -> None:
        super().__init__(dialect=dialect, model=model, endpoint=endpoint)
        self._think_mode = cast(Mode, options.get("inline_think", "auto"))
        self._is_cumulative = options.get("cumulative_text") is True
        self._audio_type = _requested_audio(options)
        # Set while the server reports how much of the prompt it has read.
        self._is_reading_prompt = False
        self._choices: dict[int, ChoiceState] = {}
        self._tool_statuses = ToolStatuses(self)
        # Token ids and raw output by choice, as far as they were received.
        self._debug: dict[int, JsonObject] = {}
        self._facts: JsonObject = {}
        # Model and facts of the last chunk: the fast path accepts only chunks with the same.
        self._seen: tuple[Json, ...] | None = None
        # The prefix of generated call ids: the run's id, else that of the upstream's answer.
        self._answer_id = str(options.get("run_id") or "")
        self._usage: Usage | None = None
        self._performance: Json = None
        # Sources of the answer beside its choices, until there is a message to cite in.
        self._sources: list[JsonObject] = []
        self._known_sources: set[str] = set()

    # --- hooks for dialects that extend this one --------------------------------------

    def on_extension(self, name: str, data: JsonObject) -> None:
        """An event of a vendor: an object whose ``type`` begins with ``x_``."""
        self.raw(name, data=data)

    def on_unknown_member(self, name: str, value: Json) -> None:
        """A member of a chunk that no table knows."""
        self.unknown_member("chunk", name, value)

    def native_turn(self) -> JsonObject | None:
        """The assistant turn in the upstream's own form, which the next request sends back."""
        return self._choices[0].native() if 0 in self._choices else None

    def delta_of(self, entry: JsonObject) -> Json:
        """The text that a choice adds to its answer."""
        return entry.get("delta")

    # --- frames -----------------------------------------------------------------------

    def feed(self, frame: Frame) -> list[Event]:
        is_eligible = self.has_fast_path and self._seen and not self.is_done and frame.event is None
        try:
            found = self.read_chunk(frame.data) if is_eligible else None
        except (msgspec.DecodeError, UnicodeError):
            found = None
        if found is None:
            return super().feed(frame)
        (choice, member), text = found
        if member == "content":
            choice.content(text)
        else:
            choice.reasoning(member, text)
        return self._take()

    def read_chunk(self, data: str) -> Saying | None:
        """The content of a chunk with one piece of text and nothing else that is new; ``None`` or
        an error of the decoder for any other chunk. Changes nothing."""
        chunk = _quick_decoder.decode(data)
        entry = chunk.choices[0]
        choice = self.known_choice(chunk, entry.index)
        if choice is None:
            return None
        delta = entry.delta
        member = "reasoning_content" if delta.reasoning_content else "reasoning"
        reasoning = delta.reasoning_content or delta.reasoning
        if not reasoning:
            return (choice, "content"), delta.content or ""
        return None if delta.content else ((choice, member), reasoning)

    def known_choice(self, chunk: QuickChunk, number: int) -> ChoiceState | None:
        """The choice, if the chunk says the same about the whole answer as the last one."""
        facts = (chunk.model, chunk.service_tier, chunk.system_fingerprint, chunk.provider)
        is_named_late = chunk.id and not self._facts.get("upstream_id")
        return self._choices.get(number) if facts == self._seen and not is_named_late else None

    def on_payload(self, event: str | None, data: JsonObject) -> None:
        self.start(text_of(data, "model"))
        name = text_of(data, "type")
        if name.startswith("x_"):
            self.on_extension(name, data)
            return
        if event == tool_status.EVENT and self._tool_statuses.read_status(data):
            return
        has_choices = bool(data.get("choices"))
        is_named = event == "error" or data.get("object") == "error"
        if data.get("error") or is_named or (not has_choices and not event and is_bare_error(data)):
            self.fail_with(data)
            if not has_choices:
                return
        if isinstance(data.get("choices"), list):
            self._on_chunk(data)
        elif isinstance(data.get("usage"), dict):
            self._note_usage(data["usage"])
            self._report_usage(is_final=False)
        elif isinstance(data.get("timings"), dict):
            self._performance = data["timings"]
        else:
            self.raw(event or name or None, data=data)

    def on_body(self, data: JsonObject) -> None:
        """A complete answer is a chunk whose choices contain a whole ``message``."""
        if isinstance(data.get("choices"), list):
            self.on_payload(None, data)
            self.on_done()
        else:
            self.fail_with_body(data)

    def on_done(self) -> None:
        self._finish_choices(is_complete=self.error is None)
        self.is_done = True

    def on_late(self, data: JsonObject) -> None:
        if data.get("usage") and not data.get("choices"):
            self._note_usage(data["usage"])

    # --- chunks -------------------------------------------------------------------------

    def _on_chunk(self, data: JsonObject) -> None:
        self._note_facts(data)
        if "prompt_progress" not in data:
            self._end_prompt()
        # Sources with titles come first.
        for name, value in sorted(data.items(), key=lambda member: member[0] != _SOURCES[0]):
            if name not in _HANDLED and name not in _IGNORED:
                self._on_member(name, value)
        if self._is_reading_prompt:
            # The next chunk ends this, which the fast path would not.
            self._seen = None
        choices = objects_of(data, "choices")
        for entry in choices:
            self._on_choice(entry)
        if self._sources and 0 in self._choices:
            self._choices[0].cite(self._sources)
        if data.get("usage"):
            self._note_usage(data["usage"])
            # A count beside text is one of many that grow; only the last one becomes an event.
            if all(entry.get("finish_reason") is not None for entry in choices):
                self._report_usage(is_final=False)

    def _note_facts(self, data: JsonObject) -> None:
        """Facts of the whole answer, when they are first sent and when they change."""
        model = text_of(data, "model")
        self._seen = (model, *(data.get(name) for name in _FACTS))
        facts = {name: data[name] for name in _FACTS if data.get(name) is not None}
        if not self._facts.get("upstream_id"):
            # Some servers leave it empty in the first chunk.
            self._answer_id = self._answer_id or text_of(data, "id")
            facts["upstream_id"] = data.get("id")
        if not self._facts:
            facts["created"] = data.get("created")
            # ``chat.start`` names the first model; only another model is reported.
            self._facts["model"] = model
        elif model:
            facts["model"] = model
        changed = {name: value for name, value in facts.items() if self._facts.get(name) != value}
        self._facts.update(changed)
        self.meta({name: value for name, value in changed.items() if value})

    def _on_member(self, name: str, value: Json) -> None:
        if name in _FACTS or value is None:
            return
        if name in _PERFORMANCE:
            # Some servers send growing figures with every chunk; the last ones are reported.
            self._performance = value
        elif name == "x_groq" and isinstance(value, dict):
            # Groq puts its request id there, and the token counts beside it.
            self._note_usage(value.get("usage"))
            self.note_once(name, {key: entry for key, entry in value.items() if key != "usage"})
        elif name in _SOURCES and isinstance(value, list):
            self._note_sources(value)
        elif name == "prompt_progress" and isinstance(value, dict):
            self._on_prompt_progress(value)
        elif name == "moderation":
            self.meta({"moderation": value})
        elif name in _DEBUG:
            self._on_debug(name, value)
        else:
            self.on_unknown_member(name, value)

    def _on_prompt_progress(self, value: JsonObject) -> None:
        """llama.cpp's, on chunks without text: tokens of the prompt, those in its cache included."""
        if not self._is_reading_prompt:
            self._is_reading_prompt = True
            self.tracker.emit(PromptProcessingStart())
        total, processed = number_of(value, "total") or 0, number_of(value, "processed") or 0
        if total > 0:
            progress = min(max(processed / total, 0.0), 1.0)
            self.tracker.emit(PromptProcessingProgress(progress=progress))

    def _end_prompt(self) -> None:
        if self._is_reading_prompt:
            self._is_reading_prompt = False
            self.tracker.emit(PromptProcessingEnd())

    def _note_sources(self, sources: list[Json]) -> None:
        """The pages that an answer is based on, which Perplexity repeats with every chunk: bare
        addresses, or with titles."""
        for source in sources:
            found = source if isinstance(source, dict) else {"url": source}
            address = text_of(found, "url")
            if address and address not in self._known_sources:
                self._known_sources.add(address)
                self._sources.append(found)

    def _on_choice(self, entry: JsonObject) -> None:
        choice = self._choice(max(0, whole_of(entry, "index") or 0))
        delta = self.delta_of(entry)
        if isinstance(delta, dict):
            choice.delta(delta)
        if isinstance(entry.get("message"), dict):
            choice.whole(entry["message"], is_last=bool(entry.get("finish_reason")))
        for name, value in entry.items():
            if name not in _CHOICE_MEMBERS and name not in self.text_members and name != "index":
                self.unknown_member("choice", name, value)
        for name, handler in _CHOICE_MEMBERS.items():
            value = entry.get(name)
            if value is not None:
                handler(self, choice, value)

    def _choice(self, number: int) -> ChoiceState:
        choice = self._choices.get(number)
        if choice is None:
            choice = ChoiceState(
                self,
                number,
                self._think_mode,
                is_cumulative=self._is_cumulative,
                audio_type=self._audio_type,
            )
            self._choices[number] = choice
        return choice

    def _on_stop_value(self, choice: ChoiceState, value: Json) -> None:
        choice.stop_sequence = value if isinstance(value, str) else None

    def _on_debug(self, name: str, value: Json, choice: int = 0) -> None:
        """A stream sends these in pieces, which become one fact at the end."""
        kept = self._debug.setdefault(choice, {})
        kept[name] = _appended(name, kept.get(name), value)

    def _report_debug(self) -> None:
        further = {str(number): kept for number, kept in self._debug.items() if number > 0}
        self.meta(self._debug.get(0, {}))
        self.meta({"alternative_debug": further} if further else {})

    def _on_finish(self, choice: ChoiceState, value: Json) -> None:
        # Some schemas list the text "null" as a reason; it means that there is none yet.
        if not isinstance(value, str) or value in ("", "null"):
            return
        choice.finish_reason = value
        choice.close(self._answer_id, is_complete=error_kind_of(value) is None)
        self.fail_for_reason(value)

    def _finish_choices(self, *, is_complete: bool) -> None:
        for choice in self._choices.values():
            choice.close(self._answer_id, is_complete=is_complete)

    # --- the end --------------------------------------------------------------------------

    def _note_usage(self, value: Json) -> None:
        if isinstance(value, dict) and value:
            self._usage = read_usage(value)

    def _report_usage(self, *, is_final: bool) -> None:
        if self._usage is not None:
            self.tracker.emit(UsageUpdate(usage=self._usage, final=is_final))

    def natural_ending(self) -> Ending | None:
        choice = self._first_choice()
        if not self.is_done and not self._has_finished():
            return None
        if not self.is_done and self.needs_done:
            self.meta({"no_done": True})
        if choice is None or (choice.finish_reason is None and not self.tracker.has_output()):
            self.fail(error_of("server", NO_ANSWER_MESSAGE))
            return None
        return self._ending_of(choice)

    def said_reason(self) -> str | None:
        choice = self._first_choice()
        return choice.finish_reason if choice else None

    def _first_choice(self) -> ChoiceState | None:
        return self._choices[min(self._choices)] if self._choices else None

    def _has_finished(self) -> bool:
        return bool(self._choices) and all(c.finish_reason for c in self._choices.values())

    def _ending_of(self, choice: ChoiceState) -> Ending:
        stop = _stop_of(choice)
        if stop.reason in CALLS_WAIT and choice.calls.waiting():
            return Ending(status="waiting", stop=stop)
        return Ending(status=status_of(stop.reason), stop=stop)

    def on_close(self, *, is_complete: bool) -> None:
        self._end_prompt()
        self._report_debug()
        self.meta(_figures(self._performance))
        self._report_usage(is_final=is_complete)
        stops = {
            str(number): msgspec.to_builtins(_stop_of(choice))
            for number, choice in self._choices.items()
            if number > 0 and choice.finish_reason
        }
        self.meta({"alternative_stops": stops} if stops else {})
        native = self.native_turn()
        if native is not None:
            self.tracker.emit(ReplayData(kind="native", data=native))


def _debug(name: str) -> Callable[[OpenAiChatParser, ChoiceState, Json], None]:
    return lambda parser, choice, value: parser._on_debug(name, value, choice.number)


_CHOICE_MEMBERS: Mapping[str, Callable[[OpenAiChatParser, ChoiceState, Json], None]] = {
    "logprobs": lambda _parser, choice, value: choice.logprobs(value),
    "error": lambda parser, _choice, value: parser.fail_with({"error": value}),
    "stop_reason": OpenAiChatParser._on_stop_value,
    "matched_stop": OpenAiChatParser._on_stop_value,
    "native_finish_reason": lambda parser, _choice, value: parser.note_once(
        "native_finish_reason", value
    ),
    **{name: _debug(name) for name in sorted(_DEBUG)},
    "finish_reason": OpenAiChatParser._on_finish,
}


def _appended(name: str, known: Json, value: Json) -> Json:
    """The known value of a member with the new one appended, up to a limit; members of objects
    alike. Data about the prompt is complete in every chunk."""
    if isinstance(value, dict):
        members = known if isinstance(known, dict) else {}
        new = {key: _appended(key, members.get(key), each) for key, each in value.items()}
        return {**members, **new}
    if isinstance(value, list):
        entries = known if isinstance(known, list) and not name.startswith("prompt") else []
        return [*entries, *value[: _MOST_DEBUG_ENTRIES - len(entries)]]
    if isinstance(value, str):
        text = known if isinstance(known, str) and not name.startswith("prompt") else ""
        return text + value[: _MOST_DEBUG_CHARACTERS - len(text)]
    return known if value is None else value


def _requested_audio(options: Values) -> str:
    """The type of sound in the answer, which only the request says."""
    body = options.get("extra_body")
    audio = body.get("audio") if isinstance(body, dict) else None
    name = audio.get("format") if isinstance(audio, dict) else None
    return f"audio/{_AUDIO_TYPES.get(name, name)}" if isinstance(name, str) and name else "audio/*"


def _figures(performance: Json) -> JsonObject:
    """The server's own figures; those of llama.cpp under the names of the result."""
    if not performance:
        return {}
    timings = performance if isinstance(performance, dict) else {}
    prompt_milliseconds = number_of(timings, "prompt_ms")
    stats: JsonObject = {
        "tokens_per_second": number_of(timings, "predicted_per_second"),
        "time_to_first_token_seconds": prompt_milliseconds and prompt_milliseconds / 1000,
    }
    known = {name: value for name, value in stats.items() if value}
    return {"perf": performance, **({"stats": known} if known else {})}


def _stop_of(choice: ChoiceState) -> Stop:
    """The stop, by the content rather than the reason: ``stop`` with open calls means tool use."""
    raw = choice.finish_reason
    reason = reason_of(raw)
    if reason == "stop" and choice.calls.waiting():
        reason = "tool_use"
    elif reason == "stop" and choice.has_refusal():
        reason = "refusal"
    return Stop(reason=reason, raw=raw, sequence=choice.stop_sequence)
