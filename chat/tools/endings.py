"""The ends of calls: a result, an error, or a question to people. Each names the claim that owns the row.

These functions are called in a database thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.core.notify import publish_after_commit
from chat.core.text import clean
from chat.events import Json, JsonObject
from chat.models import (
    AnswerFile,
    CallStatus,
    FileContent,
    NewContent,
    QuestionStatus,
    SearchKind,
    StoredFile,
    ToolCall,
)
from chat.questions import actions as questions
from chat.runs.tool_call_metrics import count_call
from chat.runs.tool_calls import NEEDS_SCOPE, NOT_CONNECTED, TOOL_CALLS
from chat.search.sources import index
from chat.tools.call_rows import (
    end_deleted,
    held_by,
    lock_conversation,
    read_call,
    withdraw_input,
)
from chat.tools.checks import is_private_to
from chat.tools.inputs import TooOften, store_inputs
from chat.tools.kinds import CallFailed, CallOutput, InputNeeded, NeedsSignIn, OutputFile
from chat.tools.mcp.listing import clean_json
from chat.tools.sign_in.waiting_calls import show_connected
from chat.web.files import SUFFIXES, file_name

logger = logging.getLogger(__name__)

KEPT_PRIVATE = gettext_noop("The tool ran, and its result is kept private.")
# Others and the model read this instead of the server's own words.
FAILED_PRIVATELY = gettext_noop("The call failed, and what the server says is kept private.")
TOO_LARGE = gettext_noop("The result is larger than the limit.")


def end_call(
    pk: int, claim: UUID, ending: CallOutput | InputNeeded | CallFailed | NeedsSignIn
) -> bool:
    """Stores how a call ended, or what it asks people, and continues the answer if it was the last one. False if
    another claim, a person or a stop was faster."""
    if isinstance(ending, InputNeeded):
        return ask_for_input(pk, claim, ending)
    if isinstance(ending, NeedsSignIn):
        return _ask_to_sign_in(pk, claim, ending.scopes)
    if isinstance(ending, CallFailed):
        return _end_failed(pk, claim, ending)
    text = clean(ending.text)
    size = sum(len(file.content) for file in ending.files)
    if len(text.encode()) > settings.TOOL_RESULT_BYTES or size > settings.TOOL_RESPONSE_BYTES:
        return _end_failed(pk, claim, CallFailed(TOO_LARGE))
    reply: JsonObject = {"output": text, "is_error": ending.is_error}
    structured = _storable(ending.structured)
    if structured is not None:
        reply["structured"] = structured
    if ending.sources:
        reply["sources"] = msgspec.to_builtins(list(ending.sources))
    values = {
        "status": CallStatus.FAILED if ending.is_error else CallStatus.DONE,
        "request_bytes": ending.request_bytes,
        "response_bytes": ending.response_bytes,
        "sealed_state": "",
        "sealed_task": "",
    }
    files = [_new_file(each, number) for number, each in enumerate(ending.files, start=1)]
    # Other writers wait for the transaction, so the storage for files is written before it.
    with FileContent.objects.writing(files, is_optional=True) as written:
        return _settle(pk, claim, reply, values, written, is_result=True)


def _storable(structured: Json) -> Json:
    """Structured content without what no database takes; nothing if it is too large, or isn't JSON."""
    try:
        cleaned = clean_json(structured)
        body = msgspec.json.encode(cleaned)
    except (TypeError, ValueError, RecursionError):
        return None
    return cleaned if len(body) <= settings.TOOL_RESULT_BYTES else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewFile(NewContent):
    """A file that a tool returned; ``name`` is shown to people."""

    name: str
    media_type: str


def _new_file(file: OutputFile, number: int) -> _NewFile:
    media_type = clean(file.media_type)
    unnamed = f"tool-result-{number}{SUFFIXES.get(media_type, '')}"
    return _NewFile(
        body=file.content,
        name=file_name(clean(file.name)) if file.name else unnamed,
        media_type=media_type,
    )


def _store_files(call: ToolCall, files: Sequence[_NewFile]) -> None:
    """The files belong to the run that made the call, and to the item of the call."""
    question = call.question
    FileContent.objects.keep_all(files)
    for position, each in enumerate(files):
        file = StoredFile.objects.store(
            question.conversation_id, name=each.name, media_type=each.media_type, content=each
        )
        index(SearchKind.FILE, file)
        AnswerFile.objects.create(
            run_id=question.run_id, file=file, item=question.position, position=position
        )


def _end_failed(pk: int, claim: UUID, failed: CallFailed) -> bool:
    sentence = str(failed)
    if failed.may_have_run and not may_repeat(pk):
        return ask_people(pk, claim, sentence, leaves_task=failed.leaves_task)
    reply: JsonObject = {"output": sentence, "is_error": True}
    values = {"status": CallStatus.FAILED, "error": sentence, "sealed_state": ""}
    if failed.leaves_task:
        values["sealed_task"] = ""
    return _settle(pk, claim, reply, values)


def _settle(
    pk: int,
    claim: UUID,
    reply: JsonObject,
    values: Mapping[str, object],
    files: Sequence[_NewFile] = (),
    *,
    is_result: bool = False,
) -> bool:
    """In one transaction: the result is stored, and then the follow-up queued. The text of a result, or of a failure,
    is stored for the executor alone if the call keeps its result private here, and files aren't kept then."""
    call = read_call(pk)
    if call is None:
        return False
    with transaction.atomic():
        if not lock_conversation(pk) or end_deleted(call, claim):
            return False
        now = timezone.now()
        status = QuestionStatus.ANSWERED
        if _stays_private(pk):
            values = {
                **values,
                "private_output": str(reply["output"]),
                "has_private_result": True,
                "private_files": len(files),
            }
            # A model repeats what it has read, so it doesn't get the result either.
            if is_result:
                status, reply = QuestionStatus.DECLINED, {"reason": KEPT_PRIVATE}
            else:
                values["error"] = FAILED_PRIVATELY
                reply = {"output": FAILED_PRIVATELY, "is_error": True}
            files = ()
        ended = held_by(pk, claim).update(finished_at=now, claim=None, runner=None, **values)
        if ended:
            count_call(call, str(values["status"]), now)
            withdraw_input(call)
            _store_files(call, files)
            questions.settle_running(call.question, status, reply)
            # A place is free for the next call of the answer.
            publish_after_commit(TOOL_CALLS)
    if ended:
        logger.info("tool_call.ended call=%d status=%s", pk, values["status"])
    return bool(ended)


def ask_for_input(pk: int, claim: UUID, needed: InputNeeded) -> bool:
    """Asks people what the tool asks, and lets go of the call until they have answered."""
    try:
        return store_inputs(pk, claim, needed)
    except TooOften as error:
        return _end_failed(pk, claim, CallFailed(str(error)))


def _stays_private(pk: int) -> bool:
    """Returns whether the result is for the executor alone: others read the conversation. Call it under its lock."""
    call = read_call(pk)
    if call is None or not call.is_personal or not call.keeps_private:
        return False
    return not is_private_to(call.executor, call.question.conversation)


def ask_people(pk: int, claim: UUID, sentence: str, *, leaves_task: bool = False) -> bool:
    """The call may have run, and nobody knows what it has done. Its task is canceled, unless it may have the result."""
    call = read_call(pk)
    if call is None:
        return False
    with transaction.atomic():
        if not lock_conversation(pk) or end_deleted(call, claim):
            return False
        asked = held_by(pk, claim).update(
            status=CallStatus.UNKNOWN,
            finished_at=timezone.now(),
            claim=None,
            runner=None,
            error=sentence,
            sealed_state="",
            **({"sealed_task": ""} if leaves_task else {}),
        )
        if asked:
            count_call(call, CallStatus.UNKNOWN)
            withdraw_input(call)
            questions.reopen_running(call.question)
            publish_after_commit(TOOL_CALLS)
    if asked:
        logger.info("tool_call.unknown call=%d", pk)
    return bool(asked)


def _ask_to_sign_in(pk: int, claim: UUID, scopes: Sequence[str]) -> bool:
    """The call has not run. It waits until its executor has an account again, or one with these scopes, and runs then if
    it was approved."""
    call = read_call(pk)
    if call is None:
        return False
    with transaction.atomic():
        if not lock_conversation(pk):
            return False
        asked = held_by(pk, claim).update(
            status=CallStatus.APPROVAL,
            claim=None,
            runner=None,
            sent_at=None,
            error=NEEDS_SCOPE if scopes else NOT_CONNECTED,
            **({"needed_scope": " ".join(scopes)} if scopes else {}),
        )
        if asked:
            questions.reopen_running(call.question)
            publish_after_commit(TOOL_CALLS)
    if asked:
        logger.info("tool_call.needs_sign_in call=%d", pk)
        server = call.tool.server if call.tool is not None else None
        if call.executor is not None and server is not None and not scopes:
            # Other cards still offer an approval.
            show_connected(call.executor, server)
    return bool(asked)


def may_repeat(pk: int) -> bool:
    """Returns whether a call that may have run may be made once more by itself."""
    is_harmless = Q(tool__is_read_only=True) | Q(tool__is_idempotent=True)
    return ToolCall.objects.filter(is_harmless, pk=pk).exists()
