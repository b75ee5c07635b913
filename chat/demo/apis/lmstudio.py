"""LM Studio's native REST API, as far as a chat needs it."""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chat.demo.apis.base import DemoApi, DemoState, listing
from chat.demo.encoder import ERROR_TEXT, Encoder, Item
from chat.demo.http import Request
from chat.demo.models import DemoModel, server_of
from chat.demo.requests import (
    BadRequest,
    DemoRequest,
    JsonObject,
    StoredAnswer,
    described,
    estimate,
    is_count,
    parameters_in,
    parsed,
)
from chat.demo.scenes import Call, Ending, Scene, TextKind

SERVER = server_of("lmstudio")
CONTEXT_LENGTH = 32_768
LOAD_SECONDS = 2.0
LOAD_STEPS = 20
PROMPT_STEP_SECONDS = 0.25
ARGUMENT_SECONDS = 0.4
TOOL_SECONDS = 0.9


def refused(message: str, *, code: str, param: str | None = None) -> BadRequest:
    error = {"type": "invalid_request", "message": message, "code": code}
    return BadRequest({"error": error if param is None else {**error, "param": param}})


# --- reading a request ---------------------------------------------------------------------------


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_fraction(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


Rule = tuple[Callable[[Any], bool], str, str]
_FRACTION: Rule = (_is_fraction, "must be a number from 0 to 1", "out_of_range")
_COUNT: Rule = (is_count, "must be a positive integer", "invalid_type")
_BOOLEAN: Rule = (lambda value: isinstance(value, bool), "must be a boolean", "invalid_type")
RULES: Mapping[str, Rule] = {
    "temperature": _FRACTION,
    "top_p": _FRACTION,
    "min_p": _FRACTION,
    "top_k": _COUNT,
    "max_output_tokens": _COUNT,
    "context_length": _COUNT,
    "stream": _BOOLEAN,
    "store": _BOOLEAN,
    "system_prompt": (lambda value: isinstance(value, str), "must be a string", "invalid_type"),
    "repeat_penalty": (_is_number, "must be a number", "invalid_type"),
}
_NAMED = (
    *("temperature", "top_p", "min_p", "top_k", "repeat_penalty", "max_output_tokens"),
    "reasoning",
)
_IMAGE = re.compile(r"data:(image/[\w.+-]+);base64,([A-Za-z0-9+/=]+)\Z")


def read(request: Request, state: DemoState) -> DemoRequest:
    """Check a request as LM Studio does. Raises ``BadRequest``."""
    body = _body(request)
    model = _model(body)
    integrations = _integrations(body)
    texts, pictures = _input(body)
    previous = _previous(body, state)
    question, earlier = _questions(texts[-1] if texts else "")
    asked = sum(map(len, texts)) + len(body.get("system_prompt") or "")
    named = ", ".join(f"`{name}`" for name in integrations)
    return DemoRequest(
        dialect=SERVER.dialect,
        model=model.id,
        body=body,
        text=question,
        turn=(previous.turn if previous else len(earlier)) + 1,
        previous_question=previous.question if previous else "".join(earlier[-1:]),
        received=(
            *_received(body, texts, pictures),
            *((f"tools of {named}",) if integrations else ()),
        ),
        thinks=_thinks(body, model),
        runs_tools=True,
        limit=body.get("max_output_tokens"),
        input_tokens=(previous.tokens if previous else 0) + estimate(asked, len(pictures)),
        values={"server_label": integrations[0] if integrations else "office"},
    )


def _body(request: Request) -> JsonObject:
    try:
        body = parsed(request.body)
    except ValueError as error:
        raise refused("The request body is not valid JSON", code="json_parse_error") from error
    if not isinstance(body, dict):
        raise refused("Request body must be a JSON object", code="invalid_type")
    for name, (holds, rule, code) in RULES.items():
        if name in body and not holds(body[name]):
            raise refused(f'"{name}" {rule}', code=code, param=name)
    return body


def _model(body: JsonObject) -> DemoModel:
    name = body.get("model")
    if name is None:
        raise refused('"model" is required', code="missing_required_parameter", param="model")
    model = SERVER.find(name)
    if model is None:
        raise refused(f"Model not found: {name}", code="model_not_found", param="model")
    return model


def _input(body: JsonObject) -> tuple[list[str], list[str]]:
    """The texts, the newest last, and the media types of the pictures."""
    given = body.get("input")
    if given is None:
        raise refused('"input" is required', code="missing_required_parameter", param="input")
    if isinstance(given, str):
        return [given], []
    if not isinstance(given, list) or not given:
        raise _bad_input("expected a string or an array of items")
    texts: list[str] = []
    pictures: list[str] = []
    for item in given:
        _read_item(item, texts, pictures)
    return texts, pictures


def _read_item(item: object, texts: list[str], pictures: list[str]) -> None:
    kind = item.get("type") if isinstance(item, dict) else None
    if isinstance(item, dict) and kind == "text" and isinstance(item.get("content"), str):
        texts.append(item["content"])
    elif isinstance(item, dict) and kind == "image" and _IMAGE.match(str(item.get("data_url"))):
        pictures.append(item["data_url"].partition(";")[0].removeprefix("data:"))
    elif kind in ("text", "image"):
        raise _bad_input("text items need `content`, image items a base64 `data_url`")
    else:
        raise _bad_input("Invalid discriminator value: expected 'text' | 'image'")


def _bad_input(message: str) -> BadRequest:
    return refused(message, code="invalid_union", param="input")


_HISTORY = re.compile(
    r"The conversation so far:\n\n(?P<turns>.*)\n\nThe user's next message:\n\n(?P<question>.*)",
    re.DOTALL,
)
_QUESTION = re.compile(r"(?:\A|\n\n)User:\n(.*?)(?=\n\n(?:Assistant|User):\n|\Z)", re.DOTALL)


def _questions(text: str) -> tuple[str, list[str]]:
    """The newest question and those before it, where the history came as text in front of it."""
    found = _HISTORY.fullmatch(text)
    if found is None:
        return text, []
    return found["question"], _QUESTION.findall(found["turns"])


def _integrations(body: JsonObject) -> list[str]:
    """The names of the plugins and MCP servers; their headers are never repeated."""
    given = body.get("integrations", [])
    if not isinstance(given, list):
        raise _bad_integration("expected an array")
    return [_integration(entry) for entry in given]


def _integration(entry: object) -> str:
    if isinstance(entry, str):
        return entry
    kind = entry.get("type") if isinstance(entry, dict) else None
    if isinstance(entry, dict) and kind == "plugin" and isinstance(entry.get("id"), str):
        return str(entry["id"])
    if not isinstance(entry, dict) or kind != "ephemeral_mcp":
        raise _bad_integration("expected a string, a plugin or an ephemeral_mcp")
    if not str(entry.get("server_url", "")).startswith(("http://", "https://")):
        raise _bad_integration("`server_url` must be an address")
    return str(entry.get("server_label"))


def _bad_integration(message: str) -> BadRequest:
    return refused(message, code="invalid_union", param="integrations")


def _previous(body: JsonObject, state: DemoState) -> StoredAnswer | None:
    name = "previous_response_id"
    response_id = body.get(name)
    if response_id is None:
        return None
    if not isinstance(response_id, str) or not response_id.startswith("resp_"):
        raise refused(f'"{name}" must begin with "resp_"', code="invalid_string", param=name)
    found = state.answers.get(response_id)
    if found is None:
        message = f"Could not find a stored response with the id {response_id}"
        raise refused(message, code="previous_response_not_found", param=name)
    return found


def reasoning_options(model: DemoModel) -> tuple[str, ...]:
    """The values of ``reasoning`` that the model takes; none where it does not reason."""
    return ("off", "low", "medium", "high", "on") if model.thinks else ()


def _thinks(body: JsonObject, model: DemoModel) -> bool | None:
    wish = body.get("reasoning")
    if wish is None:
        return model.thinks
    if wish not in reasoning_options(model):
        message = f"Model {model.id} does not support reasoning setting {wish!r}"
        raise refused(message, code="invalid_value", param="reasoning")
    return None if wish == "off" else True


def _received(body: JsonObject, texts: list[str], pictures: list[str]) -> tuple[str, ...]:
    found = list(parameters_in(body, _NAMED))
    if len(texts) > 1:
        found.insert(0, f"{sum(map(len, texts[:-1]))} characters of text before it")
    if body.get("system_prompt"):
        found.insert(0, f"a system prompt of {len(body['system_prompt'])} characters")
    return (*described(pictures), *found)


# --- answering -------------------------------------------------------------------------------------

_KINDS: Mapping[TextKind, str] = {
    "reasoning": "reasoning",
    "message": "message",
    "refusal": "message",
}


class NativeEncoder(Encoder):
    """``chat.start`` to ``chat.end``, whose result says everything again."""

    def __init__(self, asked: DemoRequest, scene: Scene, state: DemoState) -> None:
        super().__init__(asked, scene)
        self._state = state
        self._output: list[JsonObject] = []
        self._load_seconds = 0.0
        self._loaded_at = 0.0
        self._first_token_at = 0.0

    def begin(self) -> Iterator[Item]:
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
        """No end of the open text comes after it, only ``chat.end`` with what there is."""
        error = {"type": "internal_error", "message": ERROR_TEXT, "code": "generation_failed"}
        yield {"type": "error", "error": error}
        yield from self.end()

    def end(self) -> Iterator[Item]:
        self.closing = {"type": "chat.end", "result": self._result()}
        return iter(())

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
            self._state.answers.put(result["response_id"], stored)
        return result

    def whole(self) -> tuple[int, JsonObject]:
        events = list(self.only_events())
        error = next((event for event in events if event["type"] == "error"), None)
        return (500, {"error": error["error"]}) if error else (200, events[-1]["result"])


# --- the list of models ----------------------------------------------------------------------------


def _models(state: DemoState) -> JsonObject:
    chat = [_entry(model, state) for model in SERVER.models]
    # Real lists have one of these, too; it cannot chat.
    embedding = _common(DemoModel(id="tributary/demo-embedding", label="Embedding"), "embedding")
    return {"models": [*chat, {**embedding, "loaded_instances": []}]}


def _common(model: DemoModel, kind: str) -> JsonObject:
    return {
        "type": kind,
        "publisher": "tributary",
        "key": model.id,
        "display_name": model.label,
        "architecture": "demo",
        "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
        "size_bytes": 4_920_733_696,
        "params_string": "8B",
        "max_context_length": CONTEXT_LENGTH,
        "format": "gguf",
        "description": "No weights, only prepared texts.",
    }


def _entry(model: DemoModel, state: DemoState) -> JsonObject:
    capabilities: JsonObject = {"vision": True, "trained_for_tool_use": True}
    if model.thinks:
        options = list(reasoning_options(model))
        capabilities["reasoning"] = {"allowed_options": options, "default": "on"}
    config = {
        "context_length": CONTEXT_LENGTH,
        "eval_batch_size": 512,
        "parallel": 4,
        "flash_attention": True,
        "num_experts": 0,
        "offload_kv_cache_to_gpu": True,
    }
    is_loaded = model.id in state.loaded_models
    return {
        **_common(model, "llm"),
        "loaded_instances": [{"id": model.id, "config": config}] if is_loaded else [],
        "capabilities": capabilities,
        "variants": [f"{model.id}@q4_k_m"],
        "selected_variant": f"{model.id}@q4_k_m",
    }


api = DemoApi(
    path="",
    chat="/api/v1/chat",
    read=read,
    encoder=NativeEncoder,
    gets={"/api/v1/models": listing(_models)},
)
