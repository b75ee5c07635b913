"""What the demo says through the Messages API: acts chosen by the words of the question."""

import json
import re
import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from chat.demo import prose, scenes
from chat.demo import scenes as speech
from chat.demo.apis.anthropic.requests import (
    REDACTED,
    SEARCHER,
    MessagesRequest,
    Tool,
    signature_of,
)
from chat.demo.scenes import Break, Message, Pace, Reasoning, Refusal, Scene, Token

JsonObject = dict[str, Any]
Events = AsyncGenerator[JsonObject, None]

TOKENS_PER_SECOND = 70.0
PING_SECONDS = 1.0
SEARCH_SECONDS = 1.2
# A search that pauses does so this often before it comes to an end.
PAUSES = 2
OVERLOADED = "Overloaded: the answer broke off here because you asked for an error."

_SOURCES = (
    ("https://example.org/elder/herons", "Herons of the Elder", "Two pairs nest above the weir."),
    ("https://example.org/elder/weir", "The weir at Mill Bridge", "It was built of oak in 1788."),
)
_SEARCH_THOUGHT = (
    "This is about birds on one particular river. I should not guess; a search will tell.\n"
)
_FIRST_WORDS = "Let me look that up.\n"
_FOUND = (
    "Herons do live here. ",
    "Two pairs nest above the weir",
    ", and the weir itself is older than both: ",
    "it was built of oak in 1788",
    ".\n",
)
_NO_TOOLS = (
    "I would call a tool now, but none was offered with your question. Switch one on for this "
    "conversation and ask again.\n"
)
_AROUND_REDACTED = (
    "Some of this I may show: the question is a harmless one.\n",
    "And with that settled, an answer is easy.\n",
)
_REDACTED_ANSWER = (
    "You saw two thoughts of mine, and between them one that stays hidden: the provider keeps it, "
    "encrypted, and gets it back with your next message.\n"
)
_BEFORE_REFUSAL = "Let me see what I can say about that. "


# --- acts -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Redacted:
    pass


@dataclass(frozen=True, slots=True)
class Search:
    query: str


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search; of the one before it, or of one that an earlier answer began."""

    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Cited:
    """Pieces of one answer; every second one is a quotation of the next source, a block of its own."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    tool: Tool
    position: int = 0


Act = Reasoning | Message | Redacted | Search | Found | Cited | Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """The acts of one answer, and why it ends after them."""

    acts: tuple[Act, ...]
    stop_reason: str = "end_turn"
    refusal: str = ""
    scene: Scene = field(default_factory=lambda: Scene(parts=()))


def _word(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)


_REDACT = _word("redact(?:s|ed)?|hidden")
_PAUSE = _word("pauses?")
_SEARCH = _word("search(?:es)?|web")
_TOOL = _word("tools?")
_BOTH = _word("both|parallel|two")
# Words that the searcher leaves to the scenes of all models.
_OTHER = _word(
    "long|codes?|tables?|unicode|refuse[sd]?|think(?:s|ing)?|reason(?:s|ing)?|errors?|cuts?|"
    "slow(?:ly)?|load(?:s|ed|ing)?"
)


def choose(request: MessagesRequest) -> Play:
    """The first that fits decides, so the more special ones come first."""
    turn = request.turn
    scene = scenes.choose(turn)
    if request.paused:
        return _go_on(request.paused)
    if turn.tool_results:
        return Play(acts=_texts(scene))
    if _REDACT.search(turn.text):
        return _redacted()
    if _PAUSE.search(turn.text):
        search = Search("herons on the Elder")
        return Play(acts=(Message(_FIRST_WORDS), search), stop_reason="pause_turn")
    if _TOOL.search(turn.text):
        return _call(request)
    if _wants_search(request):
        return _search(thinks=bool(turn.thinks), scene=scene)
    if any(isinstance(part, Refusal) for part in scene.parts):
        return Play(acts=(Message(_BEFORE_REFUSAL),), stop_reason="refusal", refusal=prose.REFUSAL)
    return Play(acts=_texts(scene), scene=scene)


def _texts(scene: Scene) -> tuple[Act, ...]:
    return tuple(part for part in scene.parts if isinstance(part, Reasoning | Message))


def _redacted() -> Play:
    before, after = _AROUND_REDACTED
    acts = (Reasoning(before), Redacted(), Reasoning(after), Message(_REDACTED_ANSWER))
    return Play(acts=acts)


def _call(request: MessagesRequest) -> Play:
    if not request.tools:
        return Play(acts=(Message(_NO_TOOLS),))
    named = [tool for tool in request.tools if tool.name in request.turn.text]
    tools = named or request.tools[:1]
    if _BOTH.search(request.turn.text):
        tools = request.tools[:2] if len(request.tools) > 1 else request.tools * 2
    thought = () if request.turn.thinks is None else (Reasoning(prose.TOOL_THOUGHTS),)
    calls = tuple(Call(tool, position) for position, tool in enumerate(tools))
    return Play(acts=(*thought, Message(prose.TOOL_FIRST_WORDS), *calls), stop_reason="tool_use")


def _wants_search(request: MessagesRequest) -> bool:
    text = request.turn.text
    return bool(_SEARCH.search(text)) or (request.model == SEARCHER and not _OTHER.search(text))


def _search(*, thinks: bool, scene: Scene) -> Play:
    thought = (Reasoning(_SEARCH_THOUGHT),) if thinks else ()
    acts = (*thought, Message(_FIRST_WORDS), Search("herons on the Elder"), Found(), Cited(_FOUND))
    return Play(acts=acts, scene=Scene(parts=(), prompt_seconds=scene.prompt_seconds))


def _go_on(paused: Sequence[JsonObject]) -> Play:
    """The search that the answer ended with gives its result; then another one, or the end."""
    found = Found(str(paused[-1].get("id")))
    searches = sum(block["type"] == "server_tool_use" for block in paused)
    if searches < PAUSES:
        return Play(acts=(found, Search("the weir at Mill Bridge")), stop_reason="pause_turn")
    return Play(acts=(found, Cited(_FOUND)))


def arguments_for(tool: Tool) -> JsonObject:
    """Something that fits the tool's schema: every required member, or all where none is."""
    properties = tool.schema.get("properties")
    members: JsonObject = properties if isinstance(properties, dict) else {}
    required = tool.schema.get("required")
    names = required if isinstance(required, list) and required else list(members)
    return {name: _example(members.get(name)) for name in names if isinstance(name, str)}


_EXAMPLES: dict[str, Any] = {
    "string": "Mill Bridge",
    "integer": 12,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}


def _example(schema: object) -> Any:
    if not isinstance(schema, dict):
        return "Mill Bridge"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    return _EXAMPLES.get(str(schema.get("type")), "Mill Bridge")


# --- saying them ----------------------------------------------------------------------------


class Broken(Exception):
    """The connection is to be closed here: the scene asked for a cut."""


class Speaker:
    """The events of one answer, as the API streams them."""

    def __init__(self, request: MessagesRequest, play: Play, pace: Pace) -> None:
        self._request = request
        self._play = play
        self._pace = pace
        self._index = 0
        self._tokens = 0
        self._thinking_tokens = 0
        self._searches = 0
        self._search_id = ""
        self._stop_reason = play.stop_reason
        self._stop_sequence: str | None = None

    async def events(self) -> Events:
        """All events in order. An ``error`` is the last one. Raises ``Broken``."""
        yield self._message_start()
        yield {"type": "ping"}
        async for event in self._prepare():
            yield event
        for act in self._play.acts:
            async for event in self._act(act):
                yield event
                if event["type"] == "error":
                    return
            if self._stop_reason != self._play.stop_reason:
                break
        yield self._message_delta()
        yield {"type": "message_stop"}

    async def _prepare(self) -> Events:
        """Processing the prompt: here, nothing but time and pings."""
        seconds = self._play.scene.prompt_seconds
        while seconds > 0:
            await self._pace.wait(min(seconds, PING_SECONDS))
            seconds -= PING_SECONDS
            if seconds > 0:
                yield {"type": "ping"}

    async def _act(self, act: Act) -> Events:
        if isinstance(act, Reasoning | Message):
            async for event in self._text(act):
                yield event
        elif isinstance(act, Search):
            async for event in self._search(act):
                yield event
        elif isinstance(act, Found):
            await self._pace.wait(SEARCH_SECONDS)
            for event in self._whole(self._found(act)):
                yield event
        elif isinstance(act, Cited):
            async for event in self._cited(act):
                yield event
        elif isinstance(act, Call):
            async for event in self._call(act):
                yield event
        else:
            data = REDACTED + secrets.token_hex(12)
            for event in self._whole({"type": "redacted_thinking", "data": data}):
                yield event

    # --- text and thinking --------------------------------------------------------------

    async def _text(self, part: Reasoning | Message) -> Events:
        is_thought = isinstance(part, Reasoning)
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        yield self._start(empty if is_thought else {"type": "text", "text": ""})
        text, sequence = (part.text, None) if is_thought else self._until_stop(part.text)
        shown: list[str] = []
        async for thing in speech.say(
            self._scene_of(part, text),
            self._pace,
            tokens_per_second=TOKENS_PER_SECOND,
            limit=max(0, self._request.limit - self._tokens),
        ):
            if isinstance(thing, Token):
                self._tokens += 1
                self._thinking_tokens += is_thought
                if is_thought and not self._request.is_thinking_shown:
                    continue
                shown.append(thing.text)
                yield self._text_delta(thing.text, is_thought=is_thought)
            elif isinstance(thing, Break):
                if thing.cause == "length":
                    self._stop_reason = "max_tokens"
                    continue
                yield _broken(thing)
                return
        if is_thought:
            signature = signature_of(speech.paired("".join(shown)))
            yield self._delta({"type": "signature_delta", "signature": signature})
        if sequence is not None and self._stop_reason == self._play.stop_reason:
            self._stop_reason, self._stop_sequence = "stop_sequence", sequence
        yield self._stop()

    def _scene_of(self, part: Reasoning | Message, text: str) -> Scene:
        """The part as a scene of its own; only the last text of the answer breaks off."""
        texts = [act for act in self._play.acts if isinstance(act, Reasoning | Message)]
        ending = self._play.scene.ending if part is texts[-1] else "whole"
        if isinstance(part, Reasoning):
            return Scene(parts=(Reasoning(text),), ending=ending)
        return Scene(parts=(Message(text, splits_a_pair=part.splits_a_pair),), ending=ending)

    def _until_stop(self, text: str) -> tuple[str, str | None]:
        """The text before the first stop sequence in it, and that sequence."""
        places = [(text.find(s), s) for s in self._request.stop_sequences if s in text]
        if not places:
            return text, None
        place, sequence = min(places)
        return text[:place], sequence

    def _text_delta(self, text: str, *, is_thought: bool) -> JsonObject:
        if is_thought:
            return self._delta({"type": "thinking_delta", "thinking": text})
        return self._delta({"type": "text_delta", "text": text})

    async def _cited(self, act: Cited) -> Events:
        for position, piece in enumerate(act.pieces):
            is_quotation = position % 2 == 1
            yield self._start({"type": "text", "text": "", **_citations(is_quotation)})
            if is_quotation:
                url, title, text = _SOURCES[position // 2]
                citation = {
                    "type": "web_search_result_location",
                    "cited_text": text,
                    "url": url,
                    "title": title,
                    "encrypted_index": signature_of(url),
                }
                yield self._delta({"type": "citations_delta", "citation": citation})
            for token in speech.tokens(piece):
                await self._pace.wait(1 / TOKENS_PER_SECOND)
                self._tokens += 1
                yield self._delta({"type": "text_delta", "text": token})
            yield self._stop()

    # --- tools ----------------------------------------------------------------------------

    async def _search(self, act: Search) -> Events:
        self._searches += 1
        self._search_id = f"srvtoolu_{secrets.token_hex(12)}"
        block = {"type": "server_tool_use", "id": self._search_id, "name": "web_search"}
        async for event in self._input(block, {"query": act.query}):
            yield event

    def _found(self, act: Found) -> JsonObject:
        results = [
            {
                "type": "web_search_result",
                "url": url,
                "title": title,
                "page_age": None,
                "encrypted_content": signature_of(title),
            }
            for url, title, _ in _SOURCES
        ]
        return {
            "type": "web_search_tool_result",
            "tool_use_id": act.call_id or self._search_id,
            "content": results,
        }

    async def _call(self, act: Call) -> Events:
        identity = f"toolu_{secrets.token_hex(12)}"
        block = {"type": "tool_use", "id": identity, "name": act.tool.name}
        async for event in self._input(block, arguments_for(act.tool)):
            yield event

    async def _input(self, block: JsonObject, arguments: JsonObject) -> Events:
        yield self._start({**block, "input": {}})
        yield self._delta({"type": "input_json_delta", "partial_json": ""})
        for piece in speech.tokens(json.dumps(arguments)) if arguments else ():
            await self._pace.wait(1 / TOKENS_PER_SECOND)
            self._tokens += 1
            yield self._delta({"type": "input_json_delta", "partial_json": piece})
        yield self._stop()

    # --- the frame around them ----------------------------------------------------------------

    def _whole(self, block: JsonObject) -> Iterator[JsonObject]:
        yield self._start(block)
        yield self._stop()

    def _start(self, block: JsonObject) -> JsonObject:
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: JsonObject) -> JsonObject:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _stop(self) -> JsonObject:
        self._index += 1
        return {"type": "content_block_stop", "index": self._index - 1}

    def _message_start(self) -> JsonObject:
        message: JsonObject = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": self._request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": self._request.input_tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 1,
            },
        }
        return {"type": "message_start", "message": message}

    def _message_delta(self) -> JsonObject:
        delta: JsonObject = {
            "stop_reason": self._stop_reason,
            "stop_sequence": self._stop_sequence,
        }
        if self._stop_reason == "refusal":
            delta["stop_details"] = {
                "type": "refusal",
                "category": "general_harms",
                "explanation": self._play.refusal,
            }
        usage: JsonObject = {
            "input_tokens": self._request.input_tokens,
            "output_tokens": max(1, self._tokens),
            "output_tokens_details": {"thinking_tokens": self._thinking_tokens},
        }
        if self._searches:
            usage["server_tool_use"] = {"web_search_requests": self._searches}
        return {"type": "message_delta", "delta": delta, "usage": usage}


def _citations(is_quotation: bool) -> JsonObject:
    return {"citations": []} if is_quotation else {}


def _broken(thing: Break) -> JsonObject:
    if thing.cause == "cut":
        raise Broken
    return {"type": "error", "error": {"type": "overloaded_error", "message": OVERLOADED}}


# --- the whole answer at once --------------------------------------------------------------


async def complete(events: Events) -> JsonObject:
    """The message that the events stand for, or the ``error`` they end with."""
    message: JsonObject = {}
    content: list[JsonObject] = []
    async for event in events:
        kind = event["type"]
        if kind == "error":
            return event
        if kind == "message_start":
            message |= event["message"]
        elif kind == "content_block_start":
            content.append(dict(event["content_block"]))
        elif kind == "content_block_delta":
            _add(content[-1], event["delta"])
        elif kind == "content_block_stop":
            _finish(content[-1])
        elif kind == "message_delta":
            message |= event["delta"]
            message["usage"] |= event["usage"]
    return {**message, "content": content}


_JOINED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def _add(block: JsonObject, delta: JsonObject) -> None:
    kind = delta["type"]
    if kind in _JOINED:
        name = _JOINED[kind]
        block[name] = block.get(name, "") + delta[name]
    elif kind == "input_json_delta":
        block["input"] = (block["input"] or "") + delta["partial_json"]
    else:
        block["citations"] = [*block.get("citations", []), delta["citation"]]


def _finish(block: JsonObject) -> None:
    if isinstance(block.get("input"), str):
        block["input"] = json.loads(block["input"] or "{}")
    for name in ("text", "thinking"):
        if name in block:
            block[name] = speech.paired(block[name])
