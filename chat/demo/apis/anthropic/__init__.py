"""Anthropic's Messages API."""

from chat.demo.apis.anthropic.encoder import MessagesEncoder
from chat.demo.apis.anthropic.requests import REQUEST_ID, SERVER, read
from chat.demo.apis.base import DemoApi, DemoState, listing
from chat.demo.models import DemoModel
from chat.demo.requests import JsonObject


def _models(state: DemoState) -> JsonObject:
    """All in one page, whatever limit was asked for."""
    entries = [_entry(model) for model in SERVER.models]
    return {
        "data": entries,
        "has_more": False,
        "first_id": entries[0]["id"],
        "last_id": entries[-1]["id"],
    }


def _entry(model: DemoModel) -> JsonObject:
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.label,
        "created_at": "2026-01-01T00:00:00Z",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
        "capabilities": {
            "image_input": {"supported": True},
            "thinking": {"supported": True, "types": {"enabled": {"supported": True}}},
            "effort": {"supported": model.thinks},
        },
    }


api = DemoApi(
    path=SERVER.path,
    chat="/messages",
    read=read,
    encoder=MessagesEncoder,
    gets={"/models": listing(_models)},
    headers={"request-id": REQUEST_ID},
)
