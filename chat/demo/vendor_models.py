"""The models of the demo's chat completions that speak as other servers do."""

from collections.abc import Mapping

from chat.demo.catalogue import Model

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
