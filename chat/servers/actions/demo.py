"""The demo servers, created at set-up and kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import QuerySet

from chat.models import Upstream

# What `manage.py demo_upstream` lists; known, so that the first message needs no request before it.
DEMO_MODELS: Mapping[str, str] = {
    "tributary/demo-reasoner": "Demo reasoner",
    "tributary/demo-writer": "Demo writer",
    "tributary/demo-coder": "Demo coder",
}
# Chat completions as other servers speak them.
OPENAI_MODELS: Mapping[str, str] = {
    **DEMO_MODELS,
    "tributary/demo-openrouter": "Like OpenRouter",
    "tributary/demo-vllm": "Like vLLM",
    "tributary/demo-deepseek": "Like DeepSeek",
    "tributary/demo-groq": "Like Groq",
    "tributary/demo-mistral": "Like Mistral",
    "tributary/demo-llama-cpp": "Like llama.cpp",
    "tributary/demo-ollama": "Like Ollama",
    "tributary/demo-fireworks": "Like Fireworks",
    "tributary/demo-friendli": "Like Friendli with tools",
    "tributary/demo-gateway": "With sources, a picture and sound",
}
COMPLETIONS_MODELS: Mapping[str, str] = {
    "tributary/demo-base": "Demo base",
    "tributary/demo-base-thinker": "Demo base that thinks",
}
BITSEEK_MODELS: Mapping[str, str] = {"tributary/demo-bitseek": "Demo Bitseek"}
MESSAGES_MODELS: Mapping[str, str] = {
    "tributary/demo-thinker": "Demo thinker",
    "tributary/demo-searcher": "Demo searcher",
}
RESPONSES_MODELS: Mapping[str, str] = {
    "tributary/demo-agent": "Demo agent",
    "tributary/demo-agent-open": "Demo agent, open",
}
XEROTIER_MODELS: Mapping[str, str] = {
    "tributary/demo-research": "Demo research",
    "tributary/demo-deep-think": "Demo deep think",
    "tributary/demo-analyst": "Demo analyst",
    "tributary/demo-artifacts": "Demo artifacts",
    "tributary/demo-mockup": "Demo mockup",
    "tributary/demo-question": "Demo question",
    "tributary/demo-fork": "Demo branch",
}


@dataclass(frozen=True, slots=True)
class DemoServer:
    name: str
    dialect: str
    # What the dialect expects behind the server's root.
    path: str
    models: Mapping[str, str] = field(default_factory=lambda: DEMO_MODELS)


DEMO_SERVERS = (
    DemoServer("Demo (LM Studio)", "lmstudio", ""),
    DemoServer("Demo (OpenAI)", "openai_chat", "/v1", OPENAI_MODELS),
    DemoServer("Demo (Completions)", "openai_completions", "/completions/v1", COMPLETIONS_MODELS),
    DemoServer("Demo (Bitseek)", "bitseek", "/bitseek/v1", BITSEEK_MODELS),
    DemoServer("Demo (Responses)", "openai_responses", "/responses/v1", RESPONSES_MODELS),
    DemoServer("Demo (Messages)", "anthropic_messages", "/anthropic/v1", MESSAGES_MODELS),
    DemoServer("Demo (Xerotier)", "xerotier", "/xerotier/proj_demo/river/v1", XEROTIER_MODELS),
)


# --- the demo servers --------------------------------------------------------------------


def ensure_demo_upstream() -> None:
    """Makes the demo's rows, or points them to where the demo listens now. Called at each start.

    Without a demo its rows are switched off and lose their address; with one again they return.
    One that an administrator switched off stays off.
    """
    if not settings.DEMO_UPSTREAM_URL:
        Upstream.objects.filter(is_demo=True, is_enabled=True).update(is_enabled=False, base_url="")
        return
    for server in DEMO_SERVERS:
        _ensure(server, f"{settings.DEMO_UPSTREAM_URL.rstrip('/')}{server.path}")


def _ensure(server: DemoServer, base_url: str) -> None:
    rows = Upstream.objects.filter(is_demo=True, dialect=server.dialect)
    rows.filter(base_url="").update(is_enabled=True)
    if rows.update(base_url=base_url):
        _offer_new_models(rows, server)
        return
    Upstream.objects.create(
        name=_free_name(server.name),
        dialect=server.dialect,
        base_url=base_url,
        is_demo=True,
        model_list=[_model_entry(model, label) for model, label in server.models.items()],
    )


def _offer_new_models(rows: QuerySet[Upstream], server: DemoServer) -> None:
    """A newer version of the demo may have more models; those that are listed stay as they are."""
    for row in rows:
        listed = {entry["id"] for entry in row.model_list}
        new = [
            _model_entry(model, label)
            for model, label in server.models.items()
            if model not in listed
        ]
        if new:
            row.model_list = [*row.model_list, *new]
            row.save(update_fields=["model_list"])


def _model_entry(model: str, label: str) -> dict[str, object]:
    return {"id": model, "label": label, "detail": {}, "is_typed": False}


def _free_name(name: str) -> str:
    """An administrator may have used the demo's name for a server of their own."""
    taken = set(Upstream.objects.filter(name__startswith=name).values_list("name", flat=True))
    number = 2
    free = name
    while free in taken:
        free = f"{name} {number}"
        number += 1
    return free
