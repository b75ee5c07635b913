"""Folds events into the state of a result, one event at a time."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from chat.events import (
    ActivityStep,
    Alternative,
    ArtifactUpdate,
    AskQuestion,
    ChatEnd,
    ChatStart,
    CitationAdd,
    ContextFork,
    Ending,
    Error,
    ErrorInfo,
    Event,
    Extension,
    ItemEvent,
    Json,
    JsonObject,
    LogprobsAdd,
    MediaUpdate,
    MessageDelta,
    MessageEnd,
    MessageStart,
    MetaUpdate,
    MockupUpdate,
    ModelLoadEnd,
    OutputItem,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    ReplayData,
    Result,
    Stats,
    Stop,
    ToolCallArguments,
    ToolCallDelta,
    ToolCallFailure,
    ToolCallStart,
    ToolCallSuccess,
    Usage,
    UsageUpdate,
    VendorRaw,
)
from chat.events.text_buffer import add_piece
from chat.result.artifacts import (
    ARTIFACT_VERSION_FIELDS,
    Bundle,
    media_name,
    members_of,
    numbered_version,
)
from chat.result.items import PartKind, ResultPart, item_of

CUT = Ending(status="cut", stop=Stop(reason="cut"))

# All unknown events are in the log; the result keeps the first ones and their number.
MOST_VENDOR_ENTRIES = 100
# The limit for a run: thousands of updates of a long artifact would each store it as a whole.
MOST_REPEATED_CHARACTERS = 4 * 1024 * 1024

# LM Studio's figures that may have a fraction; the others count tokens.
_TIMES = ("tokens_per_second", "time_to_first_token_seconds", "model_load_time_seconds")

_StatsSource = Literal["upstream", "measured", "mixed"]


class Fold:
    """Adds events one by one, each in constant time; ``result`` may be called at any time.

    ``fold(a)`` continued with ``b`` gives the same as ``fold(a + b)``. Nothing is copied from the
    upstream's own final object: the streamed items are the record.
    """

    def __init__(self) -> None:
        self.start: ChatStart | None = None
        self.end: ChatEnd | None = None
        self.error: ErrorInfo | None = None
        self.last_seq = 0
        self.last_t = 0
        self._parts: dict[tuple[int, int], ResultPart] = {}
        self._usage: Usage | None = None
        self._load_seconds: float | None = None
        self._first_token_t = 0
        self._last_token_t = 0
        self._meta: JsonObject = {}
        self._response_id: str | None = None
        self._upstream_stats: JsonObject = {}
        self._upstream_result: Json = None
        self._alternative_stops: JsonObject = {}
        self._native: Json = None
        self._artifacts: dict[str, JsonObject] = {}
        self._repeated_characters = 0
        self._bundles: list[Bundle] = []
        self._bundles_by_name: dict[tuple[str, str | None], Bundle] = {}
        self._media: dict[tuple[int, int], dict[str, int]] = {}
        self._asks: dict[str, JsonObject] = {}
        self._activity: dict[tuple[str, ...], JsonObject] = {}
        self._fork: JsonObject | None = None
        self._vendor: list[JsonObject] = []
        self._omitted_vendor_entries = 0
        self._unreadable_frames = 0
        # The model's name, if the upstream sent it only at the end.
        self._late_model = ""

    def add(self, event: Event) -> None:
        self.last_seq = event.seq or self.last_seq + 1
        if event.t:
            self.last_t = event.t
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def extend(self, events: Iterable[Event]) -> None:
        for event in events:
            self.add(event)

    def result(self, ending: Ending | None = None) -> Result:
        """The result so far. Without ``ending`` the one of ``chat.end`` applies, else ``cut``."""
        if ending is None:
            ending = ending_in(self.end) if self.end else CUT
        choices: dict[int, list[OutputItem]] = {0: []}
        for (choice, _), part in sorted(self._parts.items()):
            choices.setdefault(choice, []).append(item_of(part))
        stats, source = self._stats()
        return Result(
            model_instance_id=self._late_model
            or (self.start.model_instance_id if self.start else ""),
            output=choices.pop(0),
            stats=stats,
            response_id=self._response_id,
            ext=Extension(
                status=ending.status,
                stop=ending.stop,
                usage=self._usage,
                error=self.error,
                alternatives=[
                    Alternative(choice=choice, output=output, stop=self._alternative_stop(choice))
                    for choice, output in choices.items()
                ],
                artifacts=[
                    {**entry, "versions": list(entry["versions"])}
                    for entry in self._artifacts.values()
                ],
                mockups=[bundle.entry() for bundle in self._bundles],
                asks=list(self._asks.values()),
                activity=list(self._activity.values()),
                fork=self._fork,
                meta=dict(self._meta),
                vendor=self._vendor_entries(),
                unreadable_frames=self._unreadable_frames,
                stats_source=source,
                native=self._native,
                upstream_result=self._upstream_result,
            ),
        )

    def open_parts(self) -> list[ResultPart]:
        """Items that are not closed yet, in item order."""
        return [part for _, part in sorted(self._parts.items()) if part.is_open]

    # --- figures -------------------------------------------------------------------

    def _stats(self) -> tuple[Stats, _StatsSource]:
        usage = self._usage or Usage()
        stats = Stats(
            input_tokens=usage.input_tokens,
            total_output_tokens=usage.output_tokens,
            reasoning_output_tokens=usage.reasoning_tokens,
            model_load_time_seconds=self._load_seconds,
        )
        upstream = self._apply_upstream_stats(stats)
        has_counts = stats.input_tokens is not None or stats.total_output_tokens is not None
        measured = self._measure(stats)
        if measured:
            return stats, "mixed" if upstream or has_counts else "measured"
        return stats, "upstream" if upstream or has_counts else "measured"

    def _apply_upstream_stats(self, stats: Stats) -> bool:
        is_any = False
        for name in Stats.__struct_fields__:
            value = self._upstream_stats.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                # Token counts are integers, or the result could not be read again.
                setattr(stats, name, value if name in _TIMES else int(value))
                is_any = True
        return is_any

    def _measure(self, stats: Stats) -> bool:
        """Fills in times that were not reported, from the clock of the events, if there was one."""
        is_any = False
        if stats.time_to_first_token_seconds is None and self._first_token_t:
            stats.time_to_first_token_seconds = self._first_token_t / 1000
            is_any = True
        seconds = (self._last_token_t - self._first_token_t) / 1000
        tokens = stats.total_output_tokens
        if stats.tokens_per_second is None and tokens and self._first_token_t and seconds > 0:
            stats.tokens_per_second = round(tokens / seconds, 2)
            is_any = True
        return is_any

    def _alternative_stop(self, choice: int) -> Stop | None:
        value = self._alternative_stops.get(str(choice))
        try:
            return msgspec.convert(value, Stop)
        except msgspec.ValidationError:
            return None

    def _vendor_entries(self) -> list[JsonObject]:
        if not self._omitted_vendor_entries:
            return list(self._vendor)
        return [*self._vendor, {"omitted": self._omitted_vendor_entries}]

    # --- handlers --------------------------------------------------------------------

    def _part(self, event: ItemEvent, kind: PartKind) -> ResultPart:
        part = self._parts.get((event.choice, event.item))
        if part is None:
            part = ResultPart(kind=kind, number=event.item, choice=event.choice)
            self._parts[event.choice, event.item] = part
        self._last_token_t = event.t or self._last_token_t
        return part

    def _received(self, part: ResultPart, text: str, t: int) -> None:
        if not self._first_token_t:
            self._first_token_t = t
        add_piece(part.pieces, text)

    def _on_start(self, event: ChatStart) -> None:
        self.start = self.start or event

    def _on_end(self, event: ChatEnd) -> None:
        self.end = self.end or event

    def _on_error(self, event: Error) -> None:
        self.error = self.error or event.error

    def _on_load_end(self, event: ModelLoadEnd) -> None:
        self._load_seconds = event.load_time_seconds

    def _on_message_start(self, event: MessageStart) -> None:
        self._part(event, "message").phase = event.phase

    def _on_message_delta(self, event: MessageDelta) -> None:
        part = self._parts.get((event.choice, event.item))
        if part is None:
            part = self._part(event, "message")
        # Nearly every event of a long answer is handled here: the same as `_received`, without the
        # call.
        self._last_token_t = event.t or self._last_token_t
        self._first_token_t = self._first_token_t or event.t
        add_piece(part.pieces, event.content)

    def _on_message_end(self, event: MessageEnd) -> None:
        self._part(event, "message").is_open = False

    def _on_reasoning_start(self, event: ReasoningStart) -> None:
        self._part(event, "reasoning").reasoning_kind = event.kind

    def _on_reasoning_delta(self, event: ReasoningDelta) -> None:
        self._received(self._part(event, "reasoning"), event.content, event.t)

    def _on_reasoning_end(self, event: ReasoningEnd) -> None:
        self._part(event, "reasoning").is_open = False

    def _on_refusal_delta(self, event: RefusalDelta) -> None:
        part = self._part(event, "refusal")
        part.is_open = False
        part.category = event.category or part.category
        self._received(part, event.content, event.t)

    def _on_call_start(self, event: ToolCallStart) -> None:
        part = self._part(event, "tool_call")
        part.tool = event.tool
        part.provider_info = event.provider_info
        part.call_id = event.call_id
        part.id_synthesised = event.id_synthesised
        part.caller = event.caller
        part.is_run_by_client = event.executes == "client"
        if not self._first_token_t:
            self._first_token_t = event.t

    def _on_call_delta(self, event: ToolCallDelta) -> None:
        self._received(self._part(event, "tool_call"), event.fragment, event.t)

    def _on_call_arguments(self, event: ToolCallArguments) -> None:
        part = self._part(event, "tool_call")
        part.tool = event.tool
        part.arguments = event.arguments
        part.arguments_raw = event.arguments_raw
        part.call_id = event.call_id or part.call_id
        part.id_synthesised = event.id_synthesised or part.id_synthesised
        part.provider_info = event.provider_info or part.provider_info
        part.is_open = not part.is_run_by_client

    def _on_call_success(self, event: ToolCallSuccess) -> None:
        part = self._part(event, "tool_call")
        part.tool = event.tool
        _drop_spelling(part, event.arguments)
        part.arguments = event.arguments
        part.output = event.output
        part.provider_info = event.provider_info or part.provider_info
        part.call_id = event.call_id or part.call_id
        part.execution = event.execution
        part.is_done = True
        part.is_open = False

    def _on_call_failure(self, event: ToolCallFailure) -> None:
        part = self._part(event, "tool_call")
        if event.metadata.arguments is not None and not event.arguments_raw:
            _drop_spelling(part, event.metadata.arguments)
        part.failure = event
        part.is_open = False

    def _on_citation(self, event: CitationAdd) -> None:
        self._part(event, "message").citations.append(event.citation)

    def _on_logprobs(self, event: LogprobsAdd) -> None:
        self._part(event, event.target).logprobs.extend(event.tokens)

    def _on_media(self, event: MediaUpdate) -> None:
        part = self._part(event, "media")
        part.is_open = False
        part.media_type = event.media_type
        part.file = event.url or self._name_of(event) or part.file
        if event.transcript:
            if event.state == "final":
                part.pieces.clear()
            part.pieces.append(event.transcript)
        if not self._first_token_t:
            self._first_token_t = event.t

    def _name_of(self, event: MediaUpdate) -> str | None:
        """The file name for bytes of an answer; ``None`` if the event contains none."""
        if not event.data:
            return None
        places = self._media.setdefault((event.choice, event.item), {})
        return media_name(event, places.setdefault(event.media_id, len(places)))

    def _on_replay(self, event: ReplayData) -> None:
        if event.kind == "native":
            self._native = event.data
        elif event.item is not None:
            part = self._parts.get((event.choice, event.item))
            if part is not None:
                part.has_replay = True

    def _on_usage(self, event: UsageUpdate) -> None:
        self._usage = event.usage

    def _on_meta(self, event: MetaUpdate) -> None:
        values = dict(event.values)
        response_id = values.pop("response_id", None)
        if isinstance(response_id, str):
            self._response_id = response_id
        model = values.pop("model_instance_id", None)
        if isinstance(model, str):
            self._late_model = model
        stats = values.pop("stats", None)
        if isinstance(stats, dict):
            self._upstream_stats.update(stats)
        stops = values.pop("alternative_stops", None)
        if isinstance(stops, dict):
            self._alternative_stops.update(stops)
        self._upstream_result = values.pop("upstream_result", self._upstream_result)
        unreadable = values.pop("unreadable_frames", None)
        if isinstance(unreadable, int):
            self._unreadable_frames = unreadable
        self._meta.update(values)

    def _on_artifact(self, event: ArtifactUpdate) -> None:
        """The latest members, and each version as it was; what an update leaves out stays. If that
        was repeated too often, a version only has what its own event says. ``op`` is the upstream's
        word: an update of an artifact that this run has not seen creates an entry, because an
        earlier run may have created the artifact."""
        entry = self._artifacts.setdefault(event.artifact_id, {"versions": []})
        said = members_of(event)
        entry.update(said)
        version = {name: entry[name] for name in ARTIFACT_VERSION_FIELDS if name in entry}
        repeated = version.keys() - said.keys()
        self._repeated_characters += sum(len(version[name]) for name in repeated)
        if self._repeated_characters > MOST_REPEATED_CHARACTERS:
            version = {name: value for name, value in version.items() if name in said}
        entry["versions"].append(numbered_version(event) | version)

    def _on_mockup(self, event: MockupUpdate) -> None:
        bundle = self._bundle(event)
        bundle.update(event)
        self._bundles_by_name["id", event.bundle_id] = bundle
        self._bundles_by_name["identifier", event.identifier] = bundle

    def _bundle(self, event: MockupUpdate) -> "Bundle":
        """The bundle with that id; else the one announced under that identifier, which gets its id
        now."""
        known = None
        if event.bundle_id is not None:
            known = self._bundles_by_name.get(("id", event.bundle_id))
        if known is None and event.identifier is not None:
            announced = self._bundles_by_name.get(("identifier", event.identifier))
            is_another = announced and event.bundle_id and announced.members.get("bundle_id")
            known = None if is_another else announced
        if known is None:
            known = Bundle()
            self._bundles.append(known)
        return known

    def _on_ask(self, event: AskQuestion) -> None:
        self._asks[event.ask_id] = members_of(event)

    def _on_activity(self, event: ActivityStep) -> None:
        """A step is one entry however often it reports; each note is an entry of its own."""
        key: tuple[str, ...] = (event.family, event.step, event.ref or "")
        if event.phase == "note":
            key = (*key, str(len(self._activity)))
        self._activity.setdefault(key, {}).update(members_of(event))

    def _on_fork(self, event: ContextFork) -> None:
        self._fork = members_of(event)

    def _on_vendor(self, event: VendorRaw) -> None:
        if len(self._vendor) < MOST_VENDOR_ENTRIES:
            self._vendor.append(members_of(event))
        else:
            self._omitted_vendor_entries += 1


# Each handler gets the type that it is listed under.
_HANDLERS: Mapping[type, Callable[..., None]] = {
    ChatStart: Fold._on_start,
    ChatEnd: Fold._on_end,
    Error: Fold._on_error,
    ModelLoadEnd: Fold._on_load_end,
    MessageStart: Fold._on_message_start,
    MessageDelta: Fold._on_message_delta,
    MessageEnd: Fold._on_message_end,
    ReasoningStart: Fold._on_reasoning_start,
    ReasoningDelta: Fold._on_reasoning_delta,
    ReasoningEnd: Fold._on_reasoning_end,
    RefusalDelta: Fold._on_refusal_delta,
    ToolCallStart: Fold._on_call_start,
    ToolCallDelta: Fold._on_call_delta,
    ToolCallArguments: Fold._on_call_arguments,
    ToolCallSuccess: Fold._on_call_success,
    ToolCallFailure: Fold._on_call_failure,
    CitationAdd: Fold._on_citation,
    LogprobsAdd: Fold._on_logprobs,
    MediaUpdate: Fold._on_media,
    ReplayData: Fold._on_replay,
    UsageUpdate: Fold._on_usage,
    MetaUpdate: Fold._on_meta,
    ArtifactUpdate: Fold._on_artifact,
    MockupUpdate: Fold._on_mockup,
    AskQuestion: Fold._on_ask,
    ActivityStep: Fold._on_activity,
    ContextFork: Fold._on_fork,
    VendorRaw: Fold._on_vendor,
}


def _drop_spelling(part: ResultPart, arguments: JsonObject) -> None:
    """Forgets how the arguments were spelled if these are others, which it would contradict."""
    if part.arguments is not None and arguments != part.arguments:
        part.arguments_raw = None
        part.pieces.clear()


def ending_in(end: ChatEnd) -> Ending:
    return Ending(status=end.result.ext.status, stop=end.result.ext.stop)
