"""LM Studio's native REST API, as far as a chat needs it."""

import secrets
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from chat.demo.encoder import ERROR_TEXT, Encoder, Item
from chat.demo.models import DemoModel, DemoServer
from chat.demo.requests import (
    BadRequest,
    DemoRequest,
    DemoState,
    JsonObject,
    StoredAnswer,
    read_request,
    remember,
)
from chat.demo.scenes import DATA, Call, Ending, Scene, TextKind

LOAD_SECONDS = 2.0
LOAD_STEPS = 20
PROMPT_STEP_SECONDS = 0.25
ARGUMENT_SECONDS = 0.4
TOOL_SECONDS = 0.9


def read(server: DemoServer, body: JsonObject, state: DemoState) -> DemoRequest:
    """The request. Raises ``BadRequest`` for ids of unknown answers, as LM Studio does; the client
    then sends the whole history."""
    response_id = body.get("previous_response_id")
    previous = state.answers.get(str(response_id))
    if response_id is not None and previous is None:
        raise BadRequest(
            f"Could not find a stored response with the id {response_id}",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    given = body.get("integrations")
    names = [_integration(entry) for entry in given] if isinstance(given, list) else []
    named = (f"tools of {', '.join(f'`{name}`' for name in names)}",) if names else ()
    asked = read_request(server, body, previous)
    return replace(
        asked,
        runs_tools=True,
        received=(*asked.received, *named),
        values={"server_label": names[0] if names else "office"},
    )


def _integration(entry: object) -> str:
    """The name of a plugin or an MCP server, without its headers."""
    if isinstance(entry, dict):
        return str(entry.get("id") or entry.get("server_label"))
    return str(entry)


# --- answering -------------------------------------------------------------------------------------

_KINDS: Mapping[TextKind, str] = {
    "reasoning": "reasoning",
    "message": "message",
    "refusal": "message",
}


class NativeEncoder(Encoder):
    """``chat.start`` to ``chat.end``, whose result repeats everything."""

    def __init__(self, asked: DemoRequest, scene: Scene, state: DemoState) -> None:
        super().__init__(asked, scene)
        self._state = state
        self._output: list[JsonObject] = []
        self._load_seconds = 0.0
        self._loaded_at = 0.0
        self._first_token_at = 0.0

    def begin_answer(self) -> Iterator[Item]:
        model = self.asked.model
        yield {"type": "chat.start", "model_instance_id": model}
        if self.scene.reloads_model or model not in self._state.loaded_models:
            yield from self._load(model)
        self._loaded_at = self.seconds
        steps = max(2, round(self.scene.prompt_seconds / PROMPT_STEP_SECONDS))
        yield {"type": "prompt_processing.start"}
        for step in range(1, steps + 1):
            yield self.pause(self.scene.prompt_seconds / steps)
            yield {"type": "prompt_processing.progress", "progress": round(step / steps, 4)}
        yield {"type": "prompt_processing.end"}

    def _load(self, model: str) -> Iterator[Item]:
        instance = {"model_instance_id": model}
        self._load_seconds = LOAD_SECONDS
        yield {"type": "model_load.start", **instance}
        for step in range(1, LOAD_STEPS + 1):
            yield self.pause(LOAD_SECONDS / LOAD_STEPS)
            yield {"type": "model_load.progress", **instance, "progress": step / LOAD_STEPS}
        yield {"type": "model_load.end", **instance, "load_time_seconds": LOAD_SECONDS}
        self._state.loaded_models.add(model)

    def open(self, kind: TextKind) -> Iterator[Item]:
        self._output.append({"type": _KINDS[kind], "content": ""})
        yield {"type": f"{_KINDS[kind]}.start"}

    def token(self, kind: TextKind, text: str) -> Iterator[Item]:
        self._first_token_at = self._first_token_at or self.seconds
        self._output[-1]["content"] += text
        yield {"type": f"{_KINDS[kind]}.delta", "content": text}

    def close(self, kind: TextKind, text: str) -> Iterator[Item]:
        self._output[-1]["content"] = text
        yield {"type": f"{_KINDS[kind]}.end"}

    def call(self, call: Call) -> Iterator[Item]:
        if call.error:
            metadata = {"type": "invalid_name", "tool_name": call.tool}
            failure = {"reason": call.error, "metadata": metadata}
            self._output.append({"type": "invalid_tool_call", **failure})
            yield {"type": "tool_call.failure", **failure}
            return
        provider = {"type": "ephemeral_mcp", "server_label": self.values["server_label"]}
        known: JsonObject = {"tool": call.tool, "provider_info": provider}
        yield {"type": "tool_call.start", **known}
        yield self.pause(ARGUMENT_SECONDS)
        known["arguments"] = call.arguments
        yield {"type": "tool_call.arguments", **known}
        yield self.pause(TOOL_SECONDS)
        known["output"] = call.output
        self._output.append({"type": "tool_call", **known})
        yield {"type": "tool_call.success", **known}

    def fail(self, ending: Ending) -> Iterator[Item]:
        """An error: the open text gets no end, and ``chat.end`` has what there is."""
        error = {"type": "internal_error", "message": ERROR_TEXT, "code": "generation_failed"}
        yield {"type": "error", "error": error}
        yield from self.end_answer()

    def end_answer(self) -> Iterator[Item]:
        yield {"type": "chat.end", "result": self._result()}

    def _result(self) -> JsonObject:
        spoken = self.seconds - self._first_token_at
        stats: JsonObject = {
            "input_tokens": self.asked.input_tokens,
            "total_output_tokens": self.tokens,
            "reasoning_output_tokens": self.reasoning_tokens,
            "tokens_per_second": round(self.tokens / spoken, 4) if spoken else 0.0,
            "time_to_first_token_seconds": round(self._first_token_at - self._loaded_at, 4),
        }
        if self._load_seconds:
            stats["model_load_time_seconds"] = self._load_seconds
        output = [item for item in self._output if item.get("content") != ""]
        result: JsonObject = {"model_instance_id": self.asked.model, "output": output}
        result["stats"] = stats
        if self.asked.body.get("store", True):
            result["response_id"] = f"resp_{secrets.token_hex(24)}"
            stored = StoredAnswer(
                turn=self.asked.turn,
                question=self.asked.text[:200],
                tokens=self.asked.input_tokens + self.tokens,
            )
            remember(self._state.answers, result["response_id"], stored)
        return result


# --- the list of models ----------------------------------------------------------------------------

_COMMON = tomllib.loads((DATA / "lmstudio-model.toml").read_text())


def models(server: DemoServer, state: DemoState) -> JsonObject:
    chat = [_entry(model, state) for model in server.models]
    # Real lists also have an embedding model, which cannot chat.
    embedding = {"type": "embedding", "key": "tributary/demo-embedding", "loaded_instances": []}
    return {"models": [*chat, {**_COMMON, **embedding, "display_name": "Embedding"}]}


def _entry(model: DemoModel, state: DemoState) -> JsonObject:
    capabilities: JsonObject = {"vision": True, "trained_for_tool_use": True}
    if model.thinks:
        options = ["off", "low", "medium", "high", "on"]
        capabilities["reasoning"] = {"allowed_options": options, "default": "on"}
    instance = {"id": model.id, "config": {"context_length": _COMMON["max_context_length"]}}
    return {
        **_COMMON,
        "type": "llm",
        "key": model.id,
        "display_name": model.label,
        "loaded_instances": [instance] if model.id in state.loaded_models else [],
        "capabilities": capabilities,
    }
