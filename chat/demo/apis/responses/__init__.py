"""OpenAI's Responses API."""

from chat.demo.apis.base import DemoApi, listing
from chat.demo.apis.responses.encoder import ResponsesEncoder
from chat.demo.apis.responses.requests import SERVER, read

api = DemoApi(
    path=SERVER.path,
    chat="/responses",
    read=read,
    encoder=ResponsesEncoder,
    gets={"/models": listing(lambda state: SERVER.openai_list)},
)
