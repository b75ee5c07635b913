"""The client that the conformance runner starts for each scenario: hands it to the test that waits at a port of the
loopback, where our client is, and ends as that test says. Only the standard library, so that it starts at once."""

import json
import os
import socket
import sys

port, url = int(sys.argv[1]), sys.argv[2]
task = {"url": url, "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))}
with socket.create_connection(("127.0.0.1", port)) as connection:
    connection.sendall(json.dumps(task).encode() + b"\n")
    problem = connection.makefile().read()
sys.exit(problem or None)
