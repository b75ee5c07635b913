"""OpenAI's Chat Completions, and how other vendors send them."""

from chat.demo.apis.base import DemoApi, DemoState, listing
from chat.demo.apis.openai.encoder import ChatEncoder
from chat.demo.apis.openai.requests import SERVER, body_of, model_in, read_chat
from chat.demo.apis.openai.vendors import VENDORS
from chat.demo.http import Request
from chat.demo.requests import DemoRequest
from chat.demo.scenes import Scene


def _read(request: Request, state: DemoState) -> DemoRequest:
    body = body_of(request)
    asked = read_chat(body, SERVER.dialect, model_in(body))
    if asked.model in VENDORS:
        VENDORS[asked.model].check(body)
    return asked


def _encoder(asked: DemoRequest, scene: Scene, state: DemoState) -> ChatEncoder:
    return VENDORS.get(asked.model, ChatEncoder)(asked, scene, state)


api = DemoApi(
    path="/v1",
    chat="/chat/completions",
    read=_read,
    encoder=_encoder,
    gets={"/models": listing(lambda state: SERVER.openai_list)},
)
