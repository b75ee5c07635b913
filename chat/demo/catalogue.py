"""The demo's models: what the model lists say about them, and which of them are loaded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]

CONTEXT_LENGTH = 32_768
# 2026-01-01T00:00:00Z; the lists are the same in every process.
CREATED = 1_767_225_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    key: str
    label: str
    description: str
    parameters: str
    size_bytes: int
    tokens_per_second: float
    reasons: bool = False
    kind: str = "llm"


MODELS = (
    Model(
        key="tributary/demo-reasoner",
        label="Demo Reasoner",
        description="Thinks before it speaks. No weights, only prepared texts.",
        parameters="12B",
        size_bytes=7_516_192_768,
        tokens_per_second=62,
        reasons=True,
    ),
    Model(
        key="tributary/demo-writer",
        label="Demo Writer",
        description="Answers at once. No weights, only prepared texts.",
        parameters="8B",
        size_bytes=4_920_733_696,
        tokens_per_second=78,
    ),
    Model(
        key="tributary/demo-coder",
        label="Demo Coder",
        description="Answers quickly. No weights, only prepared texts.",
        parameters="4B",
        size_bytes=2_497_280_000,
        tokens_per_second=90,
    ),
    Model(
        key="tributary/demo-embedding",
        label="Demo Embedding",
        description="In the list because real lists have one; it cannot chat.",
        parameters="0.3B",
        size_bytes=274_290_656,
        tokens_per_second=1,
        kind="embedding",
    ),
)

CHAT_MODELS = {model.key: model for model in MODELS if model.kind == "llm"}


class Shelf:
    """Which models this process has loaded."""

    def __init__(self) -> None:
        self._loaded: set[str] = set()

    def is_loaded(self, model: Model) -> bool:
        return model.key in self._loaded

    def load(self, model: Model) -> None:
        self._loaded.add(model.key)

    def unload(self, model: Model) -> None:
        self._loaded.discard(model.key)

    def native_list(self) -> JsonObject:
        return {"models": [self._native_entry(model) for model in MODELS]}

    def openai_list(self, further: Iterable[str] = ()) -> JsonObject:
        entries = [
            {"id": key, "object": "model", "created": CREATED, "owned_by": "tributary"}
            for key in (*CHAT_MODELS, *further)
        ]
        return {"object": "list", "data": entries}

    def _native_entry(self, model: Model) -> JsonObject:
        entry: JsonObject = {
            "type": model.kind,
            "publisher": "tributary",
            "key": model.key,
            "display_name": model.label,
            "architecture": "demo",
            "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
            "size_bytes": model.size_bytes,
            "params_string": model.parameters,
            "loaded_instances": self._instances(model),
            "max_context_length": CONTEXT_LENGTH,
            "format": "gguf",
            "description": model.description,
        }
        if model.kind == "llm":
            entry["capabilities"] = _capabilities(model)
            entry["variants"] = [f"{model.key}@q4_k_m"]
            entry["selected_variant"] = f"{model.key}@q4_k_m"
        return entry

    def _instances(self, model: Model) -> list[JsonObject]:
        if not self.is_loaded(model):
            return []
        config = {
            "context_length": CONTEXT_LENGTH,
            "eval_batch_size": 512,
            "parallel": 4,
            "flash_attention": True,
            "num_experts": 0,
            "offload_kv_cache_to_gpu": True,
        }
        return [{"id": model.key, "config": config}]


def reasoning_options(model: Model) -> tuple[str, ...]:
    """The values of ``reasoning`` that the model takes; none where it does not reason."""
    return ("off", "low", "medium", "high", "on") if model.reasons else ()


def _capabilities(model: Model) -> JsonObject:
    capabilities: JsonObject = {"vision": True, "trained_for_tool_use": True}
    if model.reasons:
        options = list(reasoning_options(model))
        capabilities["reasoning"] = {"allowed_options": options, "default": "on"}
    return capabilities


# The models of the demo's chat completions that speak as other servers do.

OPENROUTER = "tributary/demo-openrouter"
VLLM = "tributary/demo-vllm"
DEEPSEEK = "tributary/demo-deepseek"
GROQ = "tributary/demo-groq"
MISTRAL = "tributary/demo-mistral"
LLAMA_CPP = "tributary/demo-llama-cpp"
OLLAMA = "tributary/demo-ollama"
FIREWORKS = "tributary/demo-fireworks"
GATEWAY = "tributary/demo-gateway"
# Friendli's tool-assisted chat runs its tools itself.
TOOL_RUNNER = "tributary/demo-friendli"

_LABELS = {
    OPENROUTER: "Like OpenRouter",
    VLLM: "Like vLLM",
    DEEPSEEK: "Like DeepSeek",
    GROQ: "Like Groq",
    MISTRAL: "Like Mistral",
    LLAMA_CPP: "Like llama.cpp",
    OLLAMA: "Like Ollama",
    FIREWORKS: "Like Fireworks",
    TOOL_RUNNER: "Like Friendli with tools",
    GATEWAY: "With sources, a picture and sound",
}
_REASONING = (OPENROUTER, VLLM, DEEPSEEK, GROQ, MISTRAL, OLLAMA, FIREWORKS)


def _model(key: str, label: str) -> Model:
    return Model(
        key=key,
        label=label,
        description="Speaks chat completions in the way of another server.",
        parameters="0B",
        size_bytes=0,
        tokens_per_second=85,
        reasons=key in _REASONING,
    )


VENDOR_MODELS: Mapping[str, Model] = {key: _model(key, label) for key, label in _LABELS.items()}
