"""Legacy completions: a prompt in one of the usual templates, and the text after it."""

import re
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from chat.demo.apis.base import DemoApi, DemoState, listing
from chat.demo.apis.openai.encoder import alternative, likelihood
from chat.demo.apis.openai.requests import answers_in, body_of, refused
from chat.demo.encoder import ERROR_TEXT, Encoder, Item, interleave, paired
from chat.demo.http import Request
from chat.demo.models import server_of
from chat.demo.requests import DemoRequest, JsonObject, estimate, is_count, object_in, parameters_in
from chat.demo.scenes import Ending, Finish, Scene, Text, TextKind
from chat.demo.script import OPENAI_DONE, openai_chunk

SERVER = server_of("openai_completions")
# What the real servers do where nobody says more.
DEFAULT_TOKENS = 16
_NAMED = ("temperature", "top_p", "max_tokens", "seed", "stop", "top_k")

# What stands before a person's words in each template, and what after them.
_TEMPLATES: Mapping[str, re.Pattern[str]] = {
    "chatml": re.compile(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", re.DOTALL),
    "llama3": re.compile(
        r"<\|start_header_id\|>user<\|end_header_id\|>\n\n(.*?)<\|eot_id\|>", re.DOTALL
    ),
    "mistral": re.compile(r"\[INST\] (.*?)\[/INST\]", re.DOTALL),
    "gemma": re.compile(r"<start_of_turn>user\n(.*?)<end_of_turn>", re.DOTALL),
    "alpaca": re.compile(
        r"^### Instruction:\n(.*?)\n\n(?=### (?:Response|Instruction):)", re.DOTALL | re.MULTILINE
    ),
    "plain": re.compile(r"^User: (.*?)\n(?=(?:Assistant|User):)", re.DOTALL | re.MULTILINE),
}


def questions_in(prompt: str) -> tuple[str, list[str]]:
    """The template that a prompt was written in, and what people said in it; a prompt in no
    template is one question."""
    for name, pattern in _TEMPLATES.items():
        found = pattern.findall(prompt)
        if found:
            return name, found
    return "", [prompt]


def read(request: Request, state: DemoState) -> DemoRequest:
    """Raises ``BadRequest``."""
    body = body_of(request)
    model = SERVER.find(body.get("model"))
    if model is None:
        message = f"The model `{body.get('model')}` does not exist"
        raise refused(message, param="model", code="model_not_found", status=404)
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise refused("'prompt' must be a string here", param="prompt")
    _check_count(body, "max_tokens", least=1)
    _check_count(body, "logprobs", least=0, most=5)
    template, questions = questions_in(prompt)
    seen = f"a prompt in the template `{template}`" if template else "a prompt in no template"
    return DemoRequest(
        dialect=SERVER.dialect,
        model=model.id,
        body={**body, "n": answers_in(body)},
        text=questions[-1],
        turn=len(questions),
        previous_question=questions[-2] if len(questions) > 1 else "",
        received=(seen, *parameters_in(body, _NAMED)),
        thinks=model.thinks,
        limit=body.get("max_tokens") or DEFAULT_TOKENS,
        stops=_stops(body),
        input_tokens=estimate(len(prompt)),
    )


def _check_count(body: JsonObject, name: str, *, least: int, most: int = 1_000_000) -> None:
    value = body.get(name)
    if value is not None and not is_count(value, least=least, most=most):
        raise refused(f"'{name}' must be from {least} to {most}", param=name)


def _stops(body: JsonObject) -> tuple[str, ...]:
    value = body.get("stop") or []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise refused("'stop' must be a text or a list of texts", param="stop")
    if len(texts) > 4:
        raise refused("'stop' holds at most 4 texts", param="stop")
    return tuple(texts)


class TextEncoder(Encoder):
    """``text`` where the chunks of a chat have a delta; a thought stands between tags in the text."""

    done = OPENAI_DONE

    def __init__(
        self,
        asked: DemoRequest,
        scene: Scene,
        state: DemoState,
        *,
        index: int = 0,
        identity: str = "",
    ) -> None:
        super().__init__(asked, _as_text(scene))
        self._state = state
        self._index = index
        self._id = identity or f"cmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._others: list[TextEncoder] = []

    def frame(self, event: JsonObject) -> bytes:
        return openai_chunk(event)

    def events(self) -> Iterator[Item]:
        yield from self.begin()
        self._others = [
            TextEncoder(
                self.asked, alternative(self.scene, n), self._state, index=n, identity=self._id
            )
            for n in range(1, self.asked.body["n"])
        ]
        yield from interleave([self.perform(), *(other.perform() for other in self._others)])
        options = object_in(self.asked.body, "stream_options")
        if options.get("include_usage") is True and not self.has_failed:
            yield {**self._chunk(""), "choices": [], "usage": self.usage()}

    def perform(self) -> Iterator[Item]:
        if self.asked.body.get("echo") is True:
            yield self._chunk(self.asked.body["prompt"])
        yield from super().perform()

    def token(self, kind: TextKind, text: str) -> Iterator[Item]:
        yield self._chunk(text)

    def fail(self, ending: Ending) -> Iterator[Item]:
        yield {"error": {"message": ERROR_TEXT, "type": "server_error", "code": 500}}

    def end(self) -> Iterator[Item]:
        yield self._chunk("", finish_reason="length" if self.reason == "length" else "stop")

    def _chunk(self, text: str, *, finish_reason: str | None = None) -> JsonObject:
        others = self.asked.body.get("logprobs")
        choice = {
            "index": self._index,
            "text": text,
            "logprobs": None if others is None or not text else _logprobs(text, others),
            "finish_reason": finish_reason,
        }
        return {
            "id": self._id,
            "object": "text_completion",
            "created": self._created,
            "model": self.asked.model,
            "choices": [choice],
        }

    def usage(self) -> JsonObject:
        said = self.tokens + sum(other.tokens for other in self._others)
        asked = self.asked.input_tokens
        return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}

    def whole(self) -> tuple[int, JsonObject]:
        choices: dict[int, JsonObject] = {}
        last: JsonObject = {}
        for chunk in self.only_events():
            if "error" in chunk:
                return 500, chunk
            for piece in chunk["choices"]:
                last = chunk
                choice = choices.setdefault(piece["index"], {**piece, "text": ""})
                choice["text"] += piece["text"]
                choice["finish_reason"] = piece["finish_reason"]
        found = [
            {**choice, "text": paired(choice["text"])} for _, choice in sorted(choices.items())
        ]
        return 200, {**last, "choices": found, "usage": self.usage()}


def _as_text(scene: Scene) -> Scene:
    """One text, as a model without a member for reasoning writes it."""
    texts = [
        f"<think>\n{step.text}\n</think>\n\n" if step.kind == "reasoning" else step.text
        for step in scene.steps
        if isinstance(step, Text)
    ]
    return replace(scene, steps=(Text("message", "".join(texts)), Finish()))


def _logprobs(text: str, others: int) -> JsonObject:
    """Parallel lists, as this API has them."""
    entry = likelihood(text, others)
    top = {rival["token"]: rival["logprob"] for rival in entry["top_logprobs"]}
    return {
        "tokens": [text],
        "token_logprobs": [entry["logprob"]],
        "top_logprobs": [top],
        "text_offset": [0],
    }


api = DemoApi(
    path=SERVER.path,
    chat="/completions",
    read=read,
    encoder=TextEncoder,
    gets={"/models": listing(lambda state: SERVER.openai_list)},
)
