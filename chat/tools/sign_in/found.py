"""Where people sign in for servers, as this process has found it lately."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from chat.tools.sign_in.asking import Asking
from chat.tools.sign_in.discovery import Discovered, discover

KEPT_SECONDS = 300.0
MOST_KEPT = 200

_lock = threading.Lock()
_found: OrderedDict[str, tuple[float, Discovered]] = OrderedDict()


def known(server: str) -> Discovered | None:
    """The place that was found in the last minutes for the tool server at this address."""
    with _lock:
        kept = _found.get(server)
    is_fresh = kept is not None and time.monotonic() - kept[0] < KEPT_SECONDS
    return kept[1] if kept is not None and is_fresh else None


def find(asking: Asking) -> Discovered:
    """Call it in a turn of ``asking``. Raises ``SignInFailed``."""
    found = known(asking.server)
    if found is None:
        found = asking.run(lambda client: discover(client, asking.server))
        with _lock:
            _found[asking.server] = time.monotonic(), found
            _found.move_to_end(asking.server)
            while len(_found) > MOST_KEPT:
                _found.popitem(last=False)
    return found


def forget(server: str = "") -> None:
    """Forgets one server, or all."""
    with _lock:
        if server:
            _found.pop(server, None)
        else:
            _found.clear()
