"""A program that speaks MCP over its standard input and output, as its first argument says."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "public",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "Harbor", "version": "1"}},
}


def say(message: dict[str, Any], **members: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **members}), flush=True)


def tell(message: dict[str, Any], text: str) -> None:
    content = [{"type": "text", "text": text}]
    say(message, result={"content": content, "resultType": "complete"})


def call(how: str, message: dict[str, Any]) -> None:
    match how:
        case "dies":
            os._exit(3)
        case "floods":
            while True:
                print("x" * 65536, flush=True)
        case "floods values":
            print("[" * 1_000_000, flush=True)
            time.sleep(60)
        case "never answers":
            time.sleep(60)
        case "says no JSON":
            print("Ready.", flush=True)
            tell(message, "after it")
        case "refuses":
            say(message, error={"code": -32602, "message": "No such gate"})
        case "environment":
            tell(message, json.dumps(dict(os.environ)))
        case "folder":
            tell(message, os.getcwd())
        case _:
            tell(message, f"{message['params']['arguments']}")


def main(how: str, marks: str) -> None:
    with open(marks, "a") as file:
        print(os.getpid(), file=file, flush=True)
        if how == "stays":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
            print(child.pid, file=file, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "server/discover":
            if how == "dies at once":
                os._exit(3)
            say(message, result=DISCOVERED)
        elif message.get("method") == "tools/call":
            call(how, message)
    while how == "stays":
        time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
