"""Tasks of MCP servers in the rows of calls: stored when they begin, and canceled when nobody waits for them.

These functions are called in a database thread.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q, QuerySet

from chat.core.encryption import DecryptionError
from chat.models import CallStatus, ToolCall, ToolKind
from chat.tools.call_addresses import address_of
from chat.tools.call_rows import held_by
from chat.tools.definitions import call_digest
from chat.tools.kinds import CallFailed, Cancellation
from chat.tools.sign_in.accounts import account_for_call


def store_task(pk: int, claim: UUID, task: str) -> bool:
    """Stores that a task of this id does the call: the runner that claims it goes on with the task. False if the claim doesn't
    own the call any more."""
    sealed = ToolCall(pk=pk).seal_task(task)
    return bool(held_by(pk, claim).update(sealed_task=sealed, sealed_state=""))


_OVER = (CallStatus.DONE, CallStatus.FAILED, CallStatus.REFUSED, CallStatus.UNKNOWN)
# The condition that a call has ended before its task did.
HAS_LEFT_TASK = ~Q(sealed_task="") & Q(status__in=_OVER)


def left_tasks() -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(HAS_LEFT_TASK)


def take_cancellations(limit: int) -> list[Cancellation]:
    """The tasks to be canceled, each once: telling the server is a courtesy."""
    found: list[Cancellation] = []
    for call in left_tasks().select_related("tool__server", "executor").order_by("pk")[:limit]:
        if not left_tasks().filter(pk=call.pk, sealed_task=call.sealed_task).update(sealed_task=""):
            continue
        server = call.tool.server if call.tool is not None else None
        if call.tool is None or server is None or not server.is_enabled:
            continue
        if call_digest(call.tool) != call.definition_digest:
            # The id of a task is a credential of the server that made it, and this may be another one.
            continue
        try:
            task, address = call.open_task(), address_of(call)
        except (CallFailed, DecryptionError):
            continue
        account = account_for_call(call.executor, server) if call.is_personal else None
        found.append(
            Cancellation(
                call=call.pk,
                kind=ToolKind(call.kind),
                address=address,
                task=task,
                account=account.pk if account is not None else None,
            )
        )
    return found
