"""Executes the tools by which a model reads attached files, and says who may.

Access is that of the person the answer is for, and reaches the files on the way from the beginning of the conversation
to the answer, whatever a model names.
"""

from __future__ import annotations

from collections.abc import Sequence

from chat.core.threads import DatabaseThreads
from chat.documents.actions import documents_of
from chat.documents.file_tools import AttachedDocument, Refused, answer, function_of
from chat.events import JsonObject
from chat.models import Attachment, Message, Run
from chat.models.tree import path_to
from chat.tools.checks import decide_about_files
from chat.tools.kinds import CallFailed, CallOutput, CallRequest
from chat.tools.rules import Verdict

# Documents can be large: reading them must not delay the other work of a runner in its database threads.
_threads = DatabaseThreads("file-tools", size=1)


async def read_files(request: CallRequest) -> CallOutput:
    """Raises ``CallFailed``."""
    address = request.address
    return await _threads.call(_answer, address.run, function_of(address.name), request.arguments)


def _answer(run_pk: int, function: str, arguments: JsonObject) -> CallOutput:
    run = Run.objects.select_related("conversation", "requested_by").get(pk=run_pk)
    decision = decide_about_files(run)
    if decision.verdict != Verdict.RUN:
        raise CallFailed(decision.reason)
    try:
        text = answer(function, arguments, attached_documents(run))
    except Refused as refusal:
        return CallOutput(text=str(refusal), is_error=True)
    return CallOutput(text=text, response_bytes=len(text.encode("utf-8", "replace")))


def attached_documents(run: Run) -> Sequence[AttachedDocument]:
    """The documents in the messages above the run, in their order, each once."""
    rows = Message.objects.filter(conversation=run.conversation_id).only("id", "parent_id")
    messages = {row.pk: row for row in rows}
    path = [message.pk for message in path_to(messages[run.message_id], messages)]
    attachments = (
        Attachment.objects.filter(message_id__in=path)
        .exclude(file__media_type__startswith="image/")
        .exclude(file__media_type__startswith="audio/")
        .select_related("file")
        .order_by("message_id", "position")
    )
    documents = documents_of(each.file for each in attachments)
    found = {
        (each.file_id, each.pages): AttachedDocument(
            name=each.file.name, document=documents.get(each.file_id), pages=each.pages
        )
        for each in attachments
    }
    return list(found.values())
