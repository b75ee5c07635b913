"""One choice of a chat completion: its text, its tool calls, and what is sent back later."""

from collections.abc import Callable, Mapping
from typing import Literal

from chat.dialects.items import Item
from chat.dialects.openai_chat import thinking_blocks
from chat.dialects.openai_chat.executed_tools import ExecutedTools
from chat.dialects.openai_chat.tool_calls import EXTRA_MEMBERS, ToolCalls
from chat.dialects.received_text import ReceivedText
from chat.dialects.stream import StreamParser, object_of, objects_of, text_of, whole_of
from chat.dialects.thinking import Mode, Piece, ThinkSplitter, has_lone_closing, split
from chat.events import (
    Citation,
    CitationAdd,
    Json,
    JsonObject,
    LogprobsAdd,
    MediaUpdate,
    ReplayData,
)

# Members with text that is reasoning; where both are there, the first counts.
REASONING = ("reasoning_content", "reasoning")


class ChoiceState:
    """Takes the deltas of one choice and reports through the parser's tracker."""

    def __init__(
        self,
        parser: StreamParser,
        number: int,
        think_mode: Mode,
        *,
        is_cumulative: bool = False,
        audio_type: str = "audio/*",
    ) -> None:
        self.number = number
        self.finish_reason: str | None = None
        self.stop_sequence: str | None = None
        self._parser = parser
        self._tracker = parser.tracker
        self._think_mode = think_mode
        self._splitter = ThinkSplitter(think_mode)
        # An opening mark may be missing in front of reasoning.
        self._may_have_thought = think_mode == "auto"
        self.calls = ToolCalls(parser, number, self._end_text)
        self._is_cumulative = is_cumulative
        self._original = ReceivedText(is_cumulative=is_cumulative)
        self._reasoning: dict[str, ReceivedText] = {}
        self._blocks = thinking_blocks.ThinkingBlocks()
        self._extra: dict[str, JsonObject] = {}
        self._executed = ExecutedTools(parser, number)
        self._audio_type = audio_type
        # Members with a value in a delta that the fast path did not read, and members whose text began
        # in a whole message.
        self._streamed: set[str] = set()
        self._from_messages: set[str] = set()
        self._reasoning_details: list[Json] = []
        self._audio: dict[str, tuple[Item, int]] = {}

    # --- text ------------------------------------------------------------------------

    def delta(self, delta: JsonObject) -> None:
        self._take_reasoning(delta)
        for name, handler in _DELTA.items():
            value = delta.get(name)
            if value:
                self._streamed.add(name)
                handler(self, value)
        self._parser.unknown_members_of("delta", delta, _DELTA_MEMBERS)
        if delta.get("role") == "tool":
            self._parser.raw("delta", data=delta)

    def whole(self, message: JsonObject, *, is_last: bool) -> None:
        """A whole message. Beside deltas it only adds what they lacked; servers that send nothing else
        repeat the text so far in it, or not."""
        streamed = set(self._streamed)
        self.delta({name: self._missing(name, message, is_last) for name in message})
        self._streamed = streamed

    def _missing(self, name: str, message: JsonObject, is_last: bool) -> Json:
        """The part of a member of the whole message that the deltas lacked."""
        value = message[name]
        received = self._original if name == "content" else self._reasoning.get(name)
        if name == "content" and isinstance(value, list) and received and received.pieces:
            value = "".join(text_of(part, "text") for part in objects_of(message, name))
        if is_last and isinstance(value, str) and value and self._was_between_marks(name, value):
            return None
        if not isinstance(value, str) or received is None:
            is_known = name in self._streamed or (name in REASONING and self._reasoning)
            return None if is_known else value
        if not received.pieces:
            self._from_messages.add(name)
        missing = received.rest_of(value)
        if name in self._from_messages:
            is_repeated = missing or (is_last and received.joined() == value)
            return missing if is_repeated else value
        if value and not missing and is_last and received.differs_from(value):
            about = {"about": name, "streamed": len(received.joined()), "final": len(value)}
            self._parser.meta({"differences": [about]})
            self._parser.raw("message", data={name: value})
        return missing

    def _was_between_marks(self, name: str, value: str) -> bool:
        """Some servers stream thinking in the text, and separate the two in the whole message."""
        pieces = split(self._original.joined(), self._think_mode)
        kind = {"content": "message", **dict.fromkeys(REASONING, "reasoning")}.get(name)
        told = "".join(text for each, text in pieces if each == kind)
        return len(pieces) > 1 and told.strip() == value.strip()

    def content(self, content: str) -> None:
        content = self._original.add(content) if content else ""
        if self._original.repeats_itself:
            self._parser.suggest("cumulative_text", True)
        if not content:
            return
        if self._splitter.is_transparent:
            self._tracker.switch_text("message", content, choice=self.number)
        else:
            goes_on = self._splitter.is_thinking
            self._report(self._splitter.feed(content), goes_on=goes_on)

    def reasoning(self, member: str, text: str) -> None:
        """The text of a separate reasoning member."""
        if not self._splitter.is_transparent:
            self._splitter.be_strict()
        received = self._reasoning.get(member)
        if received is None:
            received = self._reasoning[member] = ReceivedText(is_cumulative=self._is_cumulative)
        text = received.add(text)
        if received.repeats_itself:
            self._parser.suggest("cumulative_text", True)
        self._tracker.switch_text("reasoning", text, choice=self.number)

    def _end_text(self) -> None:
        """A call follows."""
        self._report(self._splitter.close(is_followed=True))
        self._tracker.close_texts(choice=self.number)

    def _report(self, pieces: list[Piece], *, goes_on: bool = False) -> None:
        """``goes_on``: the first piece continues reasoning that was reported before."""
        for kind, text in pieces:
            if kind == "reasoning" and self._reasoning and not goes_on:
                # Some servers send the same reasoning between marks and in a member of its own.
                if any(each.is_same(text) for each in self._reasoning.values()):
                    continue
                self._tracker.close_text("reasoning", choice=self.number)
            goes_on = False
            self._tracker.switch_text(kind, text, choice=self.number)

    def _on_content(self, value: Json) -> None:
        if isinstance(value, str):
            self.content(value)
        elif isinstance(value, list):
            for part in value:
                self._on_part(part)
        else:
            self._parser.raw("delta", data={"content": value})

    def _on_part(self, part: Json) -> None:
        if isinstance(part, str):
            self.content(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            self.content(part["text"])
        elif isinstance(part, dict) and object_of(part, "image_url"):
            self._on_image(part)
        elif isinstance(part, dict) and part.get("type") == "thinking":
            self._on_thinking(part)
        elif isinstance(part, dict) and part.get("type") == "reference":
            # Mistral's: the numbers of documents in the request.
            self._on_annotations(part)
        else:
            self._parser.raw("delta", data={"content": [part]})

    def _on_thinking(self, part: JsonObject) -> None:
        """Mistral's models send reasoning in parts of the content, which contain parts of text."""
        thinking = part.get("thinking")
        texts = [text_of(piece, "text") for piece in objects_of(part, "thinking")]
        text = thinking if isinstance(thinking, str) else "".join(texts)
        if text:
            self.reasoning("thinking", text)
        else:
            self._parser.raw("delta", data={"content": [part]})

    def _on_refusal(self, value: Json) -> None:
        if isinstance(value, str):
            self._tracker.switch_text("refusal", value, choice=self.number)
        else:
            self._parser.raw("delta", data={"refusal": value})

    # --- reasoning ---------------------------------------------------------------------

    def _take_reasoning(self, delta: JsonObject) -> None:
        """Reads reasoning from one member, because servers repeat the same text in two or three."""
        details = objects_of(delta, "reasoning_details")
        blocks = objects_of(delta, thinking_blocks.MEMBER)
        block_text = self._take_blocks(blocks) if blocks else ""
        for member in REASONING:
            text = delta.get(member)
            if text and isinstance(text, str):
                self.reasoning(member, text)
                break
            if text:
                self._parser.raw("delta", data={member: text})
        else:
            if block_text and not self._reasoning.keys() - {thinking_blocks.MEMBER}:
                self.reasoning(thinking_blocks.MEMBER, block_text)
            self._show_details(details)
        if details:
            self._streamed.add("reasoning_details")
            self._splitter.be_strict()
            self._keep_details(details)

    def _take_blocks(self, blocks: list[JsonObject]) -> str:
        self._streamed.add(thinking_blocks.MEMBER)
        text = self._blocks.add_blocks(blocks)
        signed = [b for b in blocks if b.get("signature") or b.get("type") == "redacted_thinking"]
        if signed:
            self._replay(thinking_blocks.MEMBER, signed)
        return text

    def _show_details(self, details: list[JsonObject]) -> None:
        for detail in details:
            text = text_of(detail, "text")
            summary = text_of(detail, "summary")
            current = self._tracker.current("reasoning", choice=self.number)
            if not text and not summary:
                if self._tracker.last("reasoning", choice=self.number) is None:
                    self._tracker.open_text("reasoning", choice=self.number, reasoning="hidden")
                continue
            if current is None:
                for kind in ("message", "refusal"):
                    self._tracker.close_text(kind, choice=self.number)
                self._tracker.open_text(
                    "reasoning", choice=self.number, reasoning="full" if text else "summary"
                )
            self._tracker.text("reasoning", text or summary, choice=self.number)

    def _keep_details(self, details: list[JsonObject]) -> None:
        self._reasoning_details += details
        self._replay("reasoning_details", details)

    def _replay(self, kind: str, data: Json) -> None:
        """Data that belongs to the last reasoning, if there is any."""
        reasoning = self._tracker.last("reasoning", choice=self.number)
        self._tracker.emit(
            ReplayData(
                kind=kind,
                data=data,
                item=reasoning.number if reasoning else None,
                choice=self.number,
            )
        )

    def _on_extra(self, name: str, value: Json) -> None:
        """Keeps data that a gateway wants back with the text, such as Google's thought signatures."""
        if not isinstance(value, dict):
            self._parser.raw("delta", data={name: value})
            return
        # LiteLLM repeats its blocks there.
        kept = {key: member for key, member in value.items() if key != thinking_blocks.MEMBER}
        if any(kept.values()):
            self._extra[name] = _merged(self._extra.get(name, {}), kept)
            self._replay("thought_signature", kept)

    def _on_executed_tools(self, value: Json) -> None:
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict):
                self._end_text()
                self._executed.read_entry(entry)
            else:
                self._parser.raw("delta", data={"executed_tools": [entry]})

    # --- what accompanies the text ---------------------------------------------------------

    def logprobs(self, value: Json) -> None:
        """Reads both layouts: entries per token, or parallel lists, which stay one entry."""
        if not isinstance(value, dict):
            self._parser.raw("choice", data={"logprobs": value})
            return
        targets: tuple[Literal["message", "refusal"], ...] = ("message", "refusal")
        for name, target in zip(("content", "refusal"), targets, strict=True):
            if isinstance(value.get(name), list) and value[name]:
                self._add_logprobs(value[name], target)
        if isinstance(value.get("token_logprobs"), list):
            self._add_logprobs([value], "message")

    def _add_logprobs(self, tokens: list[Json], target: Literal["message", "refusal"]) -> None:
        items = self._tracker.items(self.number)
        if not items:
            self._parser.raw("choice", data={"logprobs": tokens})
            return
        number = (self._tracker.last(target, choice=self.number) or items[-1]).number
        self._tracker.emit(
            LogprobsAdd(item=number, choice=self.number, tokens=tokens, target=target)
        )

    def _on_annotations(self, value: Json) -> None:
        for annotation in value if isinstance(value, list) else [value]:
            if isinstance(annotation, dict):
                self._tracker.emit(
                    CitationAdd(
                        item=self._message().number,
                        choice=self.number,
                        citation=_citation(annotation),
                    )
                )
            else:
                self._parser.raw("delta", data={"annotations": [annotation]})

    def cite(self, sources: list[JsonObject]) -> None:
        """Sources of the whole answer, which are used once there is a message."""
        message = self._tracker.last("message", choice=self.number)
        if message is None:
            return
        for source in sources:
            citation = _citation(source)
            self._tracker.emit(
                CitationAdd(item=message.number, choice=self.number, citation=citation)
            )
        sources.clear()

    def _message(self) -> Item:
        last = self._tracker.last("message", choice=self.number)
        return last or self._tracker.open_text("message", choice=self.number)

    def _on_images(self, value: Json) -> None:
        for image in value if isinstance(value, list) else [value]:
            if isinstance(image, dict) and text_of(object_of(image, "image_url"), "url"):
                self._on_image(image)
            else:
                self._parser.raw("delta", data={"images": [image]})

    def _on_image(self, image: JsonObject) -> None:
        url = text_of(object_of(image, "image_url"), "url")
        item = self._tracker.open_media(choice=self.number)
        media_type, data = _split_data_url(url)
        self._tracker.emit(
            MediaUpdate(
                item=item.number,
                choice=self.number,
                media_id=f"image-{self.number}-{item.number}",
                media_type=media_type or "image/*",
                data=data,
                url=None if data is not None else url,
            )
        )

    def _on_audio(self, value: Json) -> None:
        """Sound comes in pieces with one id; later pieces may leave it out."""
        if not isinstance(value, dict):
            self._parser.raw("delta", data={"audio": value})
            return
        identity = text_of(value, "id") or next(reversed(self._audio), "audio")
        item, index = self._audio.get(identity) or (
            self._tracker.open_media(choice=self.number),
            0,
        )
        self._audio[identity] = (item, index + 1)
        self._tracker.emit(
            MediaUpdate(
                item=item.number,
                choice=self.number,
                media_id=identity,
                media_type=self._audio_type,
                state="partial",
                index=index,
                data=text_of(value, "data") or None,
                transcript=text_of(value, "transcript") or None,
            )
        )

    # --- the end ---------------------------------------------------------------------------

    def close(self, answer_id: str, *, is_complete: bool = True) -> None:
        self._report(self._splitter.close())
        self.cite(self._executed.sources)
        if self._may_have_thought and has_lone_closing(self._original.joined()):
            self._may_have_thought = False
            self._parser.suggest("inline_think", "assume_open")
        if is_complete:
            self.calls.finish(answer_id)
        self._tracker.close_choice(self.number, is_complete=is_complete)

    def has_refusal(self) -> bool:
        return self._tracker.last("refusal", choice=self.number) is not None

    def native(self) -> JsonObject | None:
        """The assistant turn in the upstream's own form: the original text, tags included."""
        turn: JsonObject = {"role": "assistant", "content": self._original.joined() or None}
        for member, received in self._reasoning.items():
            if member == thinking_blocks.MEMBER:
                continue
            # Reasoning in parts has no member of its own to be sent back in.
            turn["reasoning" if member == "thinking" else member] = received.joined()
        if self._reasoning_details:
            turn["reasoning_details"] = self._reasoning_details
        if self._blocks.native():
            turn[thinking_blocks.MEMBER] = self._blocks.native()
        turn |= self._extra
        refusals = [i.joined() for i in self._tracker.items(self.number) if i.kind == "refusal"]
        if refusals:
            turn["refusal"] = "".join(refusals)
        calls = self.calls.native()
        if calls:
            turn["tool_calls"] = calls
        return turn if len(turn) > 2 or turn["content"] else None


def _extra(name: str) -> Callable[[ChoiceState, Json], None]:
    return lambda choice, value: choice._on_extra(name, value)


# Always in this order, whatever the order in the chunk: reasoning, then text, then calls.
_DELTA: Mapping[str, Callable[[ChoiceState, Json], None]] = {
    "content": ChoiceState._on_content,
    "refusal": ChoiceState._on_refusal,
    "tool_calls": lambda choice, value: choice.calls.add_fragments(value),
    "function_call": lambda choice, value: choice.calls.take_function_call(value),
    "annotations": ChoiceState._on_annotations,
    "images": ChoiceState._on_images,
    "audio": ChoiceState._on_audio,
    "executed_tools": ChoiceState._on_executed_tools,
    **{name: _extra(name) for name in EXTRA_MEMBERS},
}
_DELTA_MEMBERS = _DELTA.keys() | {"role", *REASONING, "reasoning_details", thinking_blocks.MEMBER}


def _merged(known: JsonObject, new: JsonObject) -> JsonObject:
    """Members of members are added, too: each vendor has one of its own."""
    both = {
        name: {**known[name], **value}
        for name, value in new.items()
        if isinstance(value, dict) and isinstance(known.get(name), dict)
    }
    return {**known, **new, **both}


def _citation(annotation: JsonObject) -> Citation:
    kind = text_of(annotation, "type") or "annotation"
    inner = object_of(annotation, kind) or annotation
    return Citation(
        kind=kind,
        title=text_of(inner, "title") or None,
        url=text_of(inner, "url") or None,
        cited_text=text_of(inner, "content") or None,
        start=whole_of(inner, "start_index"),
        end=whole_of(inner, "end_index"),
        raw=annotation,
    )


def _split_data_url(url: str) -> tuple[str, str | None]:
    """Media type and base64 text of a data URL; other URLs stay unchanged."""
    if not url.startswith("data:"):
        return "", None
    head, _, data = url[len("data:") :].partition(",")
    return head.removesuffix(";base64"), data
