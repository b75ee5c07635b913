"""Xerotier's chat completions with their ``x_*`` events, its model list and the files of its mockups."""

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from chat.demo.apis.base import DemoApi, DemoState, answer
from chat.demo.apis.openai.encoder import ChatEncoder
from chat.demo.apis.openai.requests import body_of, read_chat, refused
from chat.demo.encoder import Item
from chat.demo.http import Exchange, Request
from chat.demo.models import DemoModel, server_of
from chat.demo.requests import DemoRequest, JsonObject, object_in, parsed
from chat.demo.scenes import DATA, Ending, Event, TextKind, load

SERVER = server_of("xerotier")
PROJECT, ENDPOINT = "/xerotier/proj_demo", "/team"
# As the real service: a comment after so much silence.
HEARTBEAT_SECONDS = 15.0
# Longer than two of them.
SLOW_SECONDS = 31.0


# --- reading a request ----------------------------------------------------------------------


def read(request: Request, state: DemoState) -> DemoRequest:
    """Raises ``BadRequest``."""
    body = body_of(request)
    if not body.get("model"):
        raise refused("'model' must not be empty", code="invalid_request", param="model")
    model = DemoModel(id=str(body["model"]))
    asked = read_chat(body, SERVER.dialect, model)
    messages = body["messages"]
    _check_calls(messages)
    scene, values = _continuation(model.id, messages, state)
    # Replies to questions are results on the wire, but the demo does not thank for them as for those of tools.
    return replace(asked, runs_tools=True, tool_results=(), scene=scene, values=values)


def _check_calls(messages: list[JsonObject]) -> None:
    """A call that is not answered by the messages after it is refused, as by any such server."""
    answered = {m.get("tool_call_id") for m in messages if m.get("role") == "tool"}
    for message in messages:
        for call in message.get("tool_calls") or ():
            if call.get("id") not in answered:
                text = f"No tool message answers the call {call.get('id')}"
                raise refused(text, code="invalid_request", param="messages")


def _continuation(
    model: str, messages: list[JsonObject], state: DemoState
) -> tuple[str, Mapping[str, Any]]:
    """The scene that continues what was said before, and placeholders."""
    replies = _replies(messages)
    if replies:
        return "xerotier/question-answered", {"replies": "\n".join(map(_reply_line, replies))}
    if model != "tributary/demo-mockup":
        return "", {}
    said = "\n".join(_text(m) for m in messages if m.get("role") == "assistant")
    known = BUNDLE_ID.findall(said)
    bundle = known[-1] if known else f"bndl_{secrets.token_hex(6)}"
    return "xerotier/mockup-later" if known else "", {"bundle": bundle}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n\n".join(str(part.get("text") or "") for part in content)
    return content if isinstance(content, str) else ""


def _replies(messages: list[JsonObject]) -> list[JsonObject]:
    """Replies to questions at the end: as results of the calls that asked, or as plain words."""
    found: list[JsonObject] = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        reply = _object(_text(message))
        if "askUserId" in reply:
            found.insert(0, reply)
    if found or len(messages) < 2 or messages[-1].get("role") != "user":
        return found
    was_asked = any(question in _text(messages[-2]) for question in _questions())
    return [{"text": _text(messages[-1])}] if was_asked else []


def _questions() -> Iterator[str]:
    for name in ("question", "question-two", "question-form"):
        for step in load(f"xerotier/{name}"):
            if isinstance(step, Event) and step.name == "x_ask_user.question":
                yield step.data["question"]


def _object(text: str) -> JsonObject:
    try:
        value = parsed(text.encode())
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _reply_line(reply: JsonObject) -> str:
    if "text" in reply:
        return f"> {reply['text']}"
    if reply.get("declined"):
        return "- that you would rather not say, which is fine"
    said = [f"{name}: {value}" for name, value in object_in(reply, "fields").items()]
    words = str(reply.get("answer") or "")
    # Without words of one's own the answer repeats what was chosen.
    chosen = [str(one) for one in reply.get("selected") or ()]
    said += chosen if words != ", ".join(chosen) else []
    said += [words] if words else []
    return f"- {'; '.join(said) or 'nothing'}"


# --- mockups ----------------------------------------------------------------------------------

BUNDLE_ID = re.compile(r"bndl_[0-9a-f]{12}\b")
MOCKUPS = DATA / "mockup"
_MEDIA_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "png": "image/png",
    "md": "text/markdown",
}


def files_of(version: int) -> Mapping[str, tuple[str, bytes]]:
    """Path to media type and bytes. Every version from 2 on is the finished board."""
    folder = MOCKUPS / str(min(version, 2))
    return {
        path.relative_to(folder).as_posix(): (
            _MEDIA_TYPES[path.suffix[1:]],
            path.read_bytes().replace(b"{{version}}", str(version).encode()),
        )
        for path in sorted(folder.rglob("*"), reverse=True)
        if path.is_file()
    }


def changes_in(version: int) -> JsonObject:
    """What the event of a version tells of its files: all in the first, later what changed."""
    files = files_of(version)
    if version == 1:
        listed = [
            {"path": path, "contentType": media_type, "size": len(data)}
            for path, (media_type, data) in files.items()
        ]
        return {"files": listed}
    before = files_of(version - 1)
    return {
        "changed": [path for path, file in files.items() if before.get(path) != file],
        "deleted": [path for path in before if path not in files],
    }


async def _mockup_file(exchange: Exchange, state: DemoState) -> None:
    """The file, exactly as it was announced, in the version that its bundle has reached."""
    below = exchange.request.path.removeprefix(f"{SERVER.path}/mockups/")
    bundle, _, name = unquote(below).partition("/")
    version = state.bundles.get(bundle)
    found = files_of(version).get(name) if version else None
    if found is None:
        error = {"message": "No such file", "type": "invalid_request_error", "code": "not_found"}
        await answer(exchange, 404, {"error": error})
        return
    media_type, data = found
    await exchange.answer(200, {"Content-Type": media_type}, data)


# --- answering ------------------------------------------------------------------------------

_ERRORS: Mapping[Ending, JsonObject] = {
    "error": {
        "message": "Request timed out after 30s (this is the demo's error scene).",
        "type": "timeout_error",
        "code": "timeout",
    },
    "preempted": {
        "message": "A job with a higher priority needed the machine (this is the demo's scene for it).",
        "type": "server_error",
        "code": "preempted",
    },
}


class XerotierEncoder(ChatEncoder):
    """Events between the chunks, and token counts on the last of them."""

    # A little slower than the other demos: there is more to watch.
    tokens_per_second = 45.0
    heartbeat = b": heartbeat\n\n"

    def events(self) -> Iterator[Item]:
        yield from self.perform()

    def perform(self) -> Iterator[Item]:
        yield self.chunk({"role": "assistant", "content": ""})
        if self.scene.prompt_seconds >= HEARTBEAT_SECONDS:
            for _ in range(int(SLOW_SECONDS // HEARTBEAT_SECONDS)):
                yield self.pause(HEARTBEAT_SECONDS)
                yield self.heartbeat
        yield from super(ChatEncoder, self).perform()

    def event(self, name: str, data: JsonObject) -> Iterator[Item]:
        if name in ("x_mockup.created", "x_mockup.updated"):
            data = self._bundle(data)
        yield {"type": name, **data}

    def _bundle(self, data: JsonObject) -> JsonObject:
        """The event with the files of the next version of its bundle, which can be fetched from now on."""
        bundles = self._state.bundles
        version = (bundles.get(data["bundleId"]) or 0) + 1
        bundles.put(data["bundleId"], version)
        return {**data, **changes_in(version)}

    def fail(self, ending: Ending) -> Iterator[Item]:
        self.error = _ERRORS[ending]
        yield {"error": self.error}

    def frame(self, event: JsonObject) -> bytes:
        return (b"event: error\n" if "error" in event else b"") + super().frame(event)

    def end(self) -> Iterator[Item]:
        usage = self.usage() if self.includes_usage else None
        yield {**self.chunk({}, finish_reason=self.reason or "stop"), "usage": usage}

    def token(self, kind: TextKind, text: str) -> Iterator[Item]:
        member = "refusal" if kind == "refusal" else "content"
        chunk = self.chunk({member: text})
        if self.asked.body.get("logprobs") is True:
            # The longer the token, the surer: as good as any figure that nothing was computed for.
            entry = {"token": text, "logprob": -1 / len(text), "top_logprobs": []}
            entry["bytes"] = list(text.encode("utf-8", "surrogatepass"))
            both: JsonObject = {"content": None, "refusal": None, member: [entry]}
            chunk["choices"][0]["logprobs"] = both
        yield chunk

    def chunk(self, delta: JsonObject, *, finish_reason: str | None = None) -> JsonObject:
        return {
            **super().chunk(delta, finish_reason=finish_reason),
            "service_tier": None,
            "system_fingerprint": None,
            "usage": None,
        }

    def usage(self) -> JsonObject:
        return {
            **super().usage(),
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": None},
            "completion_tokens_details": {"reasoning_tokens": None, "audio_tokens": None},
        }

    def plain_events(self) -> Iterator[Item]:
        """The answer as one object has nothing of the events between the chunks."""
        for item in self.events():
            if isinstance(item, dict) and ("choices" in item or "error" in item):
                yield item

    def whole(self) -> tuple[int, JsonObject]:
        status, body = super().whole()
        return (503 if status == 500 else status), body


async def _models(exchange: Exchange, state: DemoState) -> None:
    is_extended = "extended=true" in exchange.request.query.split("&")
    listed = SERVER.openai_list
    if is_extended:
        names = {model.id: model.label or model.id for model in SERVER.models}
        further = {"status": "ready", "architecture": "demo"}
        entries: Any = listed["data"]
        listed["data"] = [{**each, "name": names[each["id"]], **further} for each in entries]
    await answer(exchange, 200, listed)


api = DemoApi(
    path=PROJECT,
    chat=f"{ENDPOINT}/v1/chat/completions",
    read=read,
    encoder=XerotierEncoder,
    gets={"/v1/models": _models, f"{ENDPOINT}/v1/mockups/*": _mockup_file},
)
