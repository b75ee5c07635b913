"""The events of one answer, as the Responses API streams them."""

import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from chat.demo import scenes
from chat.demo.apis.responses.acts import (
    MCP_TOOLS,
    SERVER,
    SOURCES,
    Act,
    AskApproval,
    Cited,
    Draw,
    ListTools,
    McpCall,
    Play,
    RunCode,
    Search,
    picture,
)
from chat.demo.apis.responses.requests import (
    OPEN_AGENT,
    Point,
    Points,
    ResponsesRequest,
    new_id,
    seal,
)
from chat.demo.lmstudio import ERROR_TEXT, Cut
from chat.demo.scenes import (
    Break,
    Message,
    Pace,
    Reasoning,
    Refusal,
    Scene,
    Token,
    ToolCall,
    ToolFailure,
)

JsonObject = dict[str, Any]
Events = AsyncGenerator[JsonObject, None]

TOKENS_PER_SECOND = 75.0
TOOL_SECONDS = 0.8
QUEUE_SECONDS = 1.5
# Squares of the sketches and of the finished picture, in pixels.
SKETCHES = (20, 8)
FINISHED = 1
_PADDING = "0123456789abcdef"


class Speaker:
    """``events`` gives all events in order; the last holds the whole response."""

    def __init__(self, request: ResponsesRequest, play: Play, pace: Pace, points: Points) -> None:
        self._request = request
        self._play = play
        self._pace = pace
        self._points = points
        self._id = new_id("resp")
        self._created = int(time.time())
        self._number = 0
        self._output: list[JsonObject] = []
        self._tokens = 0
        self._reasoning_tokens = 0
        self._status = "completed"
        self._reason = ""

    # --- the answer ------------------------------------------------------------------------

    async def events(self) -> Events:
        """Raises ``Cut`` where the connection is to break off."""
        begun = "queued" if self._play.is_queued else "in_progress"
        yield self._event("response.created", response=self._response(begun))
        if self._play.is_queued:
            yield self._event("response.queued", response=self._response(begun))
            await self._pace.wait(QUEUE_SECONDS)
        yield self._event("response.in_progress", response=self._response("in_progress"))
        await self._pace.wait(self._play.prompt_seconds)
        for act in self._play.acts:
            async for event in _ACTS[type(act)](self, act):
                yield event
            if self._status != "completed":
                break
        if self._play.is_filtered and self._status == "completed":
            self._status, self._reason = "incomplete", "content_filter"
        yield self._event(f"response.{self._status}", response=self._end())

    def _event(self, name: str, /, **members: object) -> JsonObject:
        event: JsonObject = {"type": name, "sequence_number": self._number, **members}
        self._number += 1
        return event

    def _response(self, status: str, **members: object) -> JsonObject:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": self._play.is_queued,
            "error": None,
            "incomplete_details": None,
            "model": self._request.model,
            "output": [],
            "service_tier": "default",
            "usage": None,
            "user": None,
            "metadata": {},
            **self._request.echo,
            **members,
        }

    def _end(self) -> JsonObject:
        members: JsonObject = {"output": list(self._output), "usage": self._usage()}
        if self._status == "incomplete":
            members["incomplete_details"] = {"reason": self._reason}
        if self._status == "failed":
            members["error"] = {"code": "server_error", "message": ERROR_TEXT}
            members["usage"] = None
        if self._request.stores and self._status != "failed":
            self._points.store(self._id, self._point())
        return self._response(self._status, **members)

    def _usage(self) -> JsonObject:
        given = self._request.input_tokens
        return {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self._tokens,
            "output_tokens_details": {"reasoning_tokens": self._reasoning_tokens},
            "total_tokens": given + self._tokens,
        }

    def _point(self) -> Point:
        waiting = [item for item in self._output if item["type"] == "function_call"]
        asked = [item for item in self._output if item["type"] == "mcp_approval_request"]
        return Point(
            number=self._request.turn.number,
            question=self._request.turn.text[:200],
            tokens=self._request.input_tokens + self._tokens,
            calls=tuple(item["call_id"] for item in waiting),
            approvals={item["id"]: item for item in asked},
        )

    # --- items -------------------------------------------------------------------------------

    def _added(self, item: JsonObject) -> JsonObject:
        return self._event(
            "response.output_item.added", output_index=len(self._output), item=dict(item)
        )

    def _done(self, item: JsonObject) -> JsonObject:
        index = len(self._output)
        self._output.append(item)
        return self._event("response.output_item.done", output_index=index, item=dict(item))

    def _about(self, name: str, item: JsonObject, /, **members: object) -> JsonObject:
        place = {"item_id": item["id"], "output_index": len(self._output)}
        return self._event(f"response.{name}", **place, **members)

    def _delta(self, name: str, item: JsonObject, text: str, **members: object) -> JsonObject:
        """A piece of text. Padding hides how long it is."""
        event = self._about(name, item, delta=text, **members)
        if self._request.is_padded:
            event["obfuscation"] = (_PADDING * 2)[: max(0, 16 - len(text))]
        return event

    async def _tokens_of(self, part: Message | Reasoning | Refusal) -> AsyncGenerator[str, None]:
        """The part's tokens; ends early, with a status, where the scene or the limit says so."""
        texts = [act for act in self._play.acts if isinstance(act, Message | Reasoning | Refusal)]
        ending = self._play.ending if texts and part is texts[-1] else "whole"
        limit = self._request.limit
        async for thing in scenes.say(
            Scene(parts=(part,), ending=ending),
            self._pace,
            tokens_per_second=TOKENS_PER_SECOND,
            limit=None if limit is None else max(0, limit - self._tokens),
        ):
            if isinstance(thing, Token):
                self._tokens += 1
                self._reasoning_tokens += isinstance(part, Reasoning)
                yield thing.text
            elif isinstance(thing, Break) and thing.cause == "cut":
                raise Cut
            elif isinstance(thing, Break):
                is_error = thing.cause == "error"
                self._status = "failed" if is_error else "incomplete"
                self._reason = "" if is_error else "max_output_tokens"

    def _item_status(self) -> str:
        return "completed" if self._status == "completed" else "incomplete"

    # --- text ----------------------------------------------------------------------------------

    async def message(self, act: Message) -> Events:
        async for event in self._text(act, ()):
            yield event

    async def cited(self, act: Cited) -> Events:
        """One message; what is quoted is told as annotations with places in the text."""
        annotations = []
        place = 0
        for number, piece in enumerate(act.pieces):
            if number % 2:
                url, title = SOURCES[number // 2]
                annotations.append(
                    {
                        "type": "url_citation",
                        "start_index": place,
                        "end_index": place + len(piece),
                        "url": url,
                        "title": title,
                    }
                )
            place += len(piece)
        async for event in self._text(Message("".join(act.pieces)), tuple(annotations)):
            yield event

    async def _text(self, act: Message, annotations: tuple[JsonObject, ...]) -> Events:
        item: JsonObject = {"id": new_id("msg"), "type": "message", "role": "assistant"}
        yield self._added({**item, "status": "in_progress", "content": []})
        part: JsonObject = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        yield self._about("content_part.added", item, content_index=0, part=dict(part))
        said: list[str] = []
        async for text in self._tokens_of(act):
            said.append(text)
            yield self._delta("output_text.delta", item, text, content_index=0, logprobs=[])
        if self._status == "failed":
            return
        for number, annotation in enumerate(annotations):
            yield self._about(
                "output_text.annotation.added",
                item,
                content_index=0,
                annotation_index=number,
                annotation=annotation,
            )
        whole = scenes.paired("".join(said))
        part = {**part, "annotations": list(annotations), "text": whole}
        yield self._about("output_text.done", item, content_index=0, text=whole, logprobs=[])
        yield self._about("content_part.done", item, content_index=0, part=part)
        yield self._done({**item, "status": self._item_status(), "content": [part]})

    async def refusal(self, act: Refusal) -> Events:
        item: JsonObject = {"id": new_id("msg"), "type": "message", "role": "assistant"}
        yield self._added({**item, "status": "in_progress", "content": []})
        part = {"type": "refusal", "refusal": ""}
        yield self._about("content_part.added", item, content_index=0, part=dict(part))
        said: list[str] = []
        async for text in self._tokens_of(act):
            said.append(text)
            yield self._delta("refusal.delta", item, text, content_index=0)
        if self._status == "failed":
            return
        part = {**part, "refusal": scenes.paired("".join(said))}
        yield self._about("refusal.done", item, content_index=0, refusal=part["refusal"])
        yield self._about("content_part.done", item, content_index=0, part=part)
        yield self._done({**item, "status": self._item_status(), "content": [part]})

    async def reasoning(self, act: Reasoning) -> Events:
        if self._request.model == OPEN_AGENT:
            async for event in self._open_thought(act):
                yield event
            return
        item: JsonObject = {"id": new_id("rs"), "type": "reasoning", "summary": []}
        sealed = {"encrypted_content": ""} if self._request.wants_encrypted else {}
        yield self._added({**item, **sealed})
        parts: list[JsonObject] = []
        for number, paragraph in enumerate(_paragraphs(act.text)):
            place: JsonObject = {"summary_index": number}
            empty = {"type": "summary_text", "text": ""}
            yield self._about("reasoning_summary_part.added", item, part=empty, **place)
            said: list[str] = []
            async for text in self._tokens_of(Reasoning(paragraph)):
                said.append(text)
                yield self._delta("reasoning_summary_text.delta", item, text, **place)
            whole = scenes.paired("".join(said))
            part = {"type": "summary_text", "text": whole}
            parts.append(part)
            yield self._about("reasoning_summary_text.done", item, text=whole, **place)
            yield self._about("reasoning_summary_part.done", item, part=part, **place)
            if self._status != "completed":
                break
        if sealed:
            sealed["encrypted_content"] = seal("\n\n".join(part["text"] for part in parts))
        yield self._done({**item, "summary": parts, **sealed})

    async def _open_thought(self, act: Reasoning) -> Events:
        """As servers of open models send it: the thought itself."""
        item: JsonObject = {"id": new_id("rs"), "type": "reasoning", "summary": []}
        yield self._added({**item, "content": [], "status": "in_progress"})
        part = {"type": "reasoning_text", "text": ""}
        yield self._about("content_part.added", item, content_index=0, part=dict(part))
        said: list[str] = []
        async for text in self._tokens_of(act):
            said.append(text)
            yield self._delta("reasoning_text.delta", item, text, content_index=0)
        part = {**part, "text": scenes.paired("".join(said))}
        yield self._about("reasoning_text.done", item, content_index=0, text=part["text"])
        yield self._about("content_part.done", item, content_index=0, part=part)
        yield self._done({**item, "content": [part], "status": self._item_status()})

    # --- calls -----------------------------------------------------------------------------------

    async def function(self, act: ToolCall | ToolFailure) -> Events:
        arguments = json.dumps(act.arguments) if isinstance(act, ToolCall) else act.broken_arguments
        item: JsonObject = {
            "id": new_id("fc"),
            "type": "function_call",
            "status": "in_progress",
            "arguments": "",
            "call_id": new_id("call")[:29],
            "name": act.tool,
        }
        yield self._added(item)
        async for event in self._argument_events("function_call_arguments", item, arguments):
            yield event
        whole = {"arguments": arguments, "name": act.tool}
        yield self._about("function_call_arguments.done", item, **whole)
        yield self._done({**item, "status": "completed", "arguments": arguments})

    async def _argument_events(self, name: str, item: JsonObject, text: str) -> Events:
        for token in scenes.tokens(text):
            await self._pace.wait(1 / TOKENS_PER_SECOND)
            self._tokens += 1
            yield self._delta(f"{name}.delta", item, token)

    async def search(self, act: Search) -> Events:
        item: JsonObject = {"id": new_id("ws"), "type": "web_search_call"}
        yield self._added({**item, "status": "in_progress"})
        yield self._about("web_search_call.in_progress", item)
        yield self._about("web_search_call.searching", item)
        await self._pace.wait(TOOL_SECONDS)
        yield self._about("web_search_call.completed", item)
        sources = [{"type": "url", "url": url} for url, _ in SOURCES]
        action = {"type": "search", "query": act.query, "sources": sources}
        yield self._done({**item, "status": "completed", "action": action})

    async def list_tools(self, act: ListTools) -> Events:
        item: JsonObject = {"id": new_id("mcpl"), "type": "mcp_list_tools", "server_label": SERVER}
        yield self._added({**item, "tools": []})
        yield self._about("mcp_list_tools.in_progress", item)
        await self._pace.wait(TOOL_SECONDS / 2)
        yield self._about("mcp_list_tools.completed", item)
        yield self._done({**item, "tools": list(MCP_TOOLS)})

    async def mcp_call(self, act: McpCall) -> Events:
        arguments = json.dumps(act.arguments)
        item: JsonObject = {
            "id": new_id("mcp"),
            "type": "mcp_call",
            "approval_request_id": act.approval,
            "arguments": "",
            "error": None,
            "name": act.tool,
            "output": None,
            "server_label": SERVER,
            "status": "in_progress",
        }
        yield self._added(item)
        yield self._about("mcp_call.in_progress", item)
        async for event in self._argument_events("mcp_call_arguments", item, arguments):
            yield event
        yield self._about("mcp_call_arguments.done", item, arguments=arguments)
        await self._pace.wait(TOOL_SECONDS)
        item = {**item, "arguments": arguments}
        if act.error:
            content = [{"type": "text", "text": act.error}]
            error = {"type": "mcp_tool_execution_error", "content": content}
            yield self._about("mcp_call.failed", item)
            yield self._done({**item, "status": "failed", "error": error})
        else:
            yield self._about("mcp_call.completed", item)
            yield self._done({**item, "status": "completed", "output": act.output})

    async def ask_approval(self, act: AskApproval) -> Events:
        item: JsonObject = {
            "id": new_id("mcpr"),
            "type": "mcp_approval_request",
            "arguments": json.dumps(act.arguments),
            "name": act.tool,
            "server_label": SERVER,
        }
        yield self._added(item)
        yield self._done(item)

    async def run_code(self, act: RunCode) -> Events:
        item: JsonObject = {
            "id": new_id("ci"),
            "type": "code_interpreter_call",
            "status": "in_progress",
            "code": "",
            "container_id": new_id("cntr"),
            "outputs": None,
        }
        yield self._added(item)
        yield self._about("code_interpreter_call.in_progress", item)
        async for event in self._argument_events("code_interpreter_call_code", item, act.code):
            yield event
        yield self._about("code_interpreter_call_code.done", item, code=act.code)
        yield self._about("code_interpreter_call.interpreting", item)
        await self._pace.wait(TOOL_SECONDS)
        yield self._about("code_interpreter_call.completed", item)
        outputs = [
            {"type": "logs", "logs": act.logs},
            {"type": "image", "url": f"data:image/png;base64,{picture(SKETCHES[1])}"},
        ]
        yield self._done({**item, "status": "completed", "code": act.code, "outputs": outputs})

    async def draw(self, act: Draw) -> Events:
        item: JsonObject = {"id": new_id("ig"), "type": "image_generation_call"}
        yield self._added({**item, "status": "in_progress", "result": None})
        yield self._about("image_generation_call.in_progress", item)
        yield self._about("image_generation_call.generating", item)
        form = {"background": "opaque", "output_format": "png", "quality": "low", "size": "120x80"}
        for number, cell in enumerate(SKETCHES):
            await self._pace.wait(TOOL_SECONDS)
            yield self._about(
                "image_generation_call.partial_image",
                item,
                partial_image_index=number,
                partial_image_b64=picture(cell),
                **form,
            )
        await self._pace.wait(TOOL_SECONDS)
        yield self._about("image_generation_call.completed", item)
        finished = {"status": "completed", "result": picture(FINISHED)}
        yield self._done({**item, **finished, **form, "revised_prompt": act.prompt})


def _paragraphs(text: str) -> list[str]:
    """A thought as the parts of a summary: each begins with a heading of its own."""
    parts = [part.strip() for part in text.split("\n\n**") if part.strip()]
    return [part if number == 0 else f"**{part}" for number, part in enumerate(parts)]


_ACTS: Mapping[type[Act], Callable[..., Events]] = {
    Message: Speaker.message,
    Cited: Speaker.cited,
    Refusal: Speaker.refusal,
    Reasoning: Speaker.reasoning,
    ToolCall: Speaker.function,
    ToolFailure: Speaker.function,
    Search: Speaker.search,
    ListTools: Speaker.list_tools,
    McpCall: Speaker.mcp_call,
    AskApproval: Speaker.ask_approval,
    RunCode: Speaker.run_code,
    Draw: Speaker.draw,
}
