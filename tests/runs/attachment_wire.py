"""What tests of attachments on the wire send, and how a request is recorded."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docx

from chat import access
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.files import unsent
from chat.files.actions import ChosenUnsent, new_file
from chat.models import Conversation, FileUse, Message, Run, Team, Upstream, User
from tests.documents.office_files import word
from tests.documents.pdf_files import pdf
from tests.documents.work import read_queued
from tests.support.answers import png
from tests.support.upstream.script import (
    Script,
    lmstudio_events,
    lmstudio_run,
    openai_chunks,
    openai_run,
    stream,
)

FIXTURES = Path(__file__).parents[1] / "fixtures"
_BASE64 = re.compile(r"(data:[a-z/]+;base64,)?([A-Za-z0-9+/]{24,}={0,2})")


def _letter() -> bytes:
    def write(document: docx.document.Document) -> None:
        document.add_paragraph("Dear all.")

    return word(write)


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A file that is attached, and what is chosen for it."""

    name: str
    body: bytes
    pages: str = ""
    use: str = FileUse.CONTENT


PICTURE = Sent(name="river.png", body=png())
PDF = Sent(name="report.pdf", body=pdf(["First page.", "Second page.", "Third page."]))
RENAMED = Sent(name="scan.docx", body=PDF.body)
PAGES = Sent(name=PDF.name, body=PDF.body, pages="2-3")
TEXT = Sent(name="notes.txt", body="Élan, “quotes” & <b>tags</b>\n".encode())
TABLE = Sent(name="levels.csv", body=b"day,level\n1,2.40\n")
LETTER = Sent(name="letter.docx", body=_letter())
SOUND = Sent(name="said.wav", body=b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(28))
LEFT_TO_MODEL = Sent(name="long.pdf", body=pdf(["Look here."]), use=FileUse.TOOLS)

# By the name of the recording.
KINDS: Mapping[str, Sequence[Sent]] = {
    "picture": [PICTURE],
    "PDF": [PDF],
    "PDF with another suffix": [RENAMED],
    "chosen pages": [PAGES],
    "text": [TEXT],
    "CSV": [TABLE],
    "DOCX": [LETTER],
    "audio": [SOUND],
    "two files": [PDF, TEXT],
    "left to the model": [LEFT_TO_MODEL],
}
EVERYTHING = (PICTURE, PDF, LETTER, SOUND, LEFT_TO_MODEL)


# --- sending --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A person who writes to one server."""

    user: User
    team: Team
    upstream: Upstream

    def start(self, files: Sequence[Sent], text: str = "What is it?") -> Run:
        """A new conversation, whose files the composer has uploaded."""
        return message_actions.start_conversation(
            self.user,
            self.team,
            text=text,
            choice=self._choice(),
            idempotency_key=uuid.uuid4(),
            attachments=self._added(access.NEW, files),
        )

    def follow(self, answer: Message, text: str, files: Sequence[Sent] = ()) -> Run:
        return message_actions.send_message(
            self.user,
            answer.conversation,
            parent=answer,
            text=text,
            choice=self._choice(),
            idempotency_key=uuid.uuid4(),
            attachments=self._added(answer.conversation.public_id.hex, files),
        )

    def edit(self, message: Message, text: str) -> Run:
        return message_actions.edit_message(
            self.user,
            message,
            text=text,
            choice=self._choice(),
            idempotency_key=uuid.uuid4(),
        )

    def retry(self, answer: Message) -> Run:
        return message_actions.retry(
            self.user, answer, choice=self._choice(), idempotency_key=uuid.uuid4()
        )

    def _choice(self) -> ModelChoice:
        upstream = Upstream.objects.get(pk=self.upstream.pk)
        return ModelChoice(upstream=upstream, model="test/model")

    def _added(self, place: str, files: Sequence[Sent]) -> list[ChosenUnsent]:
        rows = [unsent.upload(self.user, place, new_file(each.name, each.body)) for each in files]
        read_queued()
        for row, each in zip(rows, files, strict=True):
            if each.pages or each.use != FileUse.CONTENT:
                unsent.choose(row, pages=each.pages, use=each.use)
        return [ChosenUnsent(place=place, public_id=row.file.public_id) for row in rows]


def last_answer(conversation: Conversation) -> Message:
    answer = conversation.messages.filter(role="assistant").order_by("pk").last()
    assert answer is not None
    return answer


# --- answers --------------------------------------------------------------------------------------


def _events(*payloads: Mapping[str, Any]) -> Script:
    return stream(
        *(
            f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n".encode()
            for payload in payloads
        )
    )


def answer_of(dialect: str) -> Script:
    """A short answer in the words of the API."""
    match dialect:
        case "lmstudio":
            return stream(lmstudio_events(lmstudio_run("A river.")))
        case "openai_chat" | "xerotier":
            return stream(openai_chunks(openai_run("A river.")))
    return stream((FIXTURES / dialect / "plain.sse").read_bytes())


def call_of(dialect: str, name: str, arguments: Mapping[str, Any]) -> Script:
    """An answer that calls a tool."""
    text = json.dumps(arguments)
    if dialect == "anthropic_messages":
        usage = {"input_tokens": 5, "output_tokens": 5}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": text}
        return _events(
            {"type": "message_start", "message": {**message, "model": "m", "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
            {"type": "message_stop"},
        )
    assert dialect == "openai_responses"
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name}
    item = {**call, "arguments": text, "status": "completed"}
    response = {"id": "resp_1", "object": "response", "model": "m", "status": "completed"}
    return _events(
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "arguments": ""},
        },
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**response, "output": [item]}},
    )


# --- recordings -----------------------------------------------------------------------------------


def recorded(body: Any) -> Any:
    """A request without what is long and always the same: Base64 by its digest, tools by their names."""
    if isinstance(body, dict):
        if isinstance(body.get("tools"), list):
            body = {**body, "tools": [_tool_name(each) for each in body["tools"]]}
        return {name: recorded(value) for name, value in body.items()}
    if isinstance(body, list):
        return [recorded(each) for each in body]
    match = _BASE64.fullmatch(body) if isinstance(body, str) else None
    if match is None:
        return body
    return f"{match[1] or ''}sha256:{hashlib.sha256(match[2].encode()).hexdigest()[:16]}"


def _tool_name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("function", tool)["name"])


def compare(dialect: str, requests: Mapping[str, Any], kinds: Collection[str]) -> None:
    """Compares requests with the recording, as far as it is of these ``kinds``. A recording that is missing is written by
    ``make test-all``, and the test fails: read it against the vendor's documentation before committing it."""
    left_out = KINDS.keys() - kinds
    path = FIXTURES / "requests" / f"{dialect}.requests.json"
    if not path.exists() and not left_out:
        path.write_text(json.dumps(requests, indent=1, ensure_ascii=False) + "\n")
        raise AssertionError(f"{path.name} was written. Read it, and run the test again.")
    known = json.loads(path.read_text()).items()
    assert requests == {
        name: body for name, body in known if name.removesuffix(", as a file") not in left_out
    }
