"""Executes the tools by which a model reads attached files.

They reach the files on the way from the beginning of the conversation to the answer, whatever a model names.
"""

from __future__ import annotations

from collections.abc import Sequence

from chat.documents.actions import documents_of
from chat.documents.file_tools import AttachedDocument, answer, function_of
from chat.events import JsonObject
from chat.models import Attachment, Message, Run, SentContext
from chat.models.tree import path_to
from chat.tools.kinds import CallOutput, CallRequest
from chat.tools.own_calls import answer_call, threads


async def read_files(request: CallRequest) -> CallOutput:
    """Raises ``CallFailed``."""
    address = request.address
    return await threads.call(_answer, address.run, function_of(address.name), request.arguments)


def _answer(run_pk: int, function: str, arguments: JsonObject) -> CallOutput:
    return answer_call(run_pk, lambda run: answer(function, arguments, attached_documents(run)))


def attached_documents(run: Run) -> Sequence[AttachedDocument]:
    """The documents in the messages that the run was sent, in their order, each once. Those of messages that people left
    out are out of reach, too."""
    rows = Message.objects.filter(conversation=run.conversation_id).only("id", "parent_id")
    messages = {row.pk: row for row in rows}
    path = [message.pk for message in path_to(messages[run.message_id], messages)]
    start = SentContext.objects.filter(run=run).values_list("start", flat=True).first()
    if start in path:
        path = path[path.index(start) :]
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
