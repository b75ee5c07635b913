"""Cases of pages that ask administrators for a reason."""

from __future__ import annotations

from tests.access_matrix.case import Case, Values, World, administrators, in_private, in_shared
from tests.access_matrix.objects import _conversation


def _reason(world: World) -> Values:
    return {"reason": "Report 12"}


def _search(world: World) -> Values:
    return {"next": "/admin/chat/conversation/?q=boat"}


ACCESS_REASON_CASES = [
    # The administrator of the private one has a reason, and is led on.
    Case("administrator_open", administrators(302), "private", in_private(_conversation)),
    Case("administrator_open", administrators(200), "shared", in_shared(_conversation)),
    Case(
        *("administrator_open", administrators(302), "shared", in_shared(_conversation)),
        *("post", _reason),
    ),
    Case("administrator_search", administrators(200), data=_search),
    Case("administrator_search", administrators(302), "without words"),
]
