"""Health check of a process on this machine: ``python -m project.probe [port]``.

For containers. It doesn't start Django; the exit code is the result.
"""

from __future__ import annotations

import http.client
import os
import sys
from contextlib import closing

# Shorter than the timeout of the container's health check.
ANSWER_SECONDS = 4


def is_alive(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    with closing(connection):
        try:
            connection.request("GET", "/healthz", headers={"Host": "localhost"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def main(arguments: list[str]) -> int:
    port = arguments[0] if arguments else os.environ.get("PORT", "8000")
    return 0 if is_alive(int(port)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
