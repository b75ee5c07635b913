"""The answers of people that a runner brings to the open calls that it holds.

Its function is called in a database thread.
"""

from __future__ import annotations

from collections.abc import Collection

from chat.models import ToolInput
from chat.tools import checks, endings, inputs
from chat.tools.call_rows import read_call
from chat.tools.kinds import CallFailed, InputReply


def replies_to(rows: Collection[int]) -> dict[int, InputReply]:
    """The answers to these requests, as far as there are any. A call that may no longer be made gets none: its request is
    dismissed, and the call ends."""
    replies = inputs.replies_to(rows)
    asked = ToolInput.objects.filter(pk__in=replies).values_list("call", "pk")
    by_call: dict[int, list[int]] = {}
    for call, row in asked:
        by_call.setdefault(call, []).append(row)
    for call, keys in by_call.items():
        if _end_refused(call):
            replies.update(dict.fromkeys(keys, InputReply(action="cancel")))
    return replies


def _end_refused(pk: int) -> bool:
    call = read_call(pk)
    if call is None or call.claim is None:
        # The runner drops it.
        return True
    reason = checks.why_refused(call)
    if not reason:
        return False
    endings.end_call(pk, call.claim, CallFailed(reason, may_have_run=True))
    return True
