"""Where `make mcp-reference` installs the reference programs of MCP's own project."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

HERE = Path(__file__).parent
ENVIRONMENT = Path(
    os.environ.get("MCP_REFERENCE_VENV", settings.BASE_DIR / ".venv-mcp-reference")
).absolute()
PACKAGES = ENVIRONMENT / "node_modules" / "@modelcontextprotocol"
NODE = str(ENVIRONMENT / "bin" / "node")
