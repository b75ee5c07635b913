"""The server of the tests over standard input and output."""

from tests.tools.mcp.servers import OwnServer

if __name__ == "__main__":
    OwnServer().library.run("stdio")
