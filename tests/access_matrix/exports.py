"""Cases of exports of one conversation."""

from __future__ import annotations

from tests.access_matrix.case import (
    Case,
    MakeInThread,
    in_shared,
    readers,
    shared_and_private,
    signed_in_only,
)
from tests.access_matrix.objects import _conversation


def _as(form: str) -> MakeInThread:
    return lambda thread: {**_conversation(thread), "form": form}


EXPORT_CASES = [
    *(
        case
        for form in ("markdown", "branches", "json", "html")
        for case in shared_and_private("conversation_export", readers, 200, _as(form))
    ),
    Case("conversation_export", signed_in_only(404), "unknown form", in_shared(_as("pdf"))),
    *shared_and_private("conversation_print", readers, 200, _conversation),
]
