"""The executors of all kinds of tools that Tributary runs, and what cancels their tasks."""

from __future__ import annotations

from collections.abc import Mapping

from chat.models import ToolKind
from chat.tools.files import read_files
from chat.tools.http import call_http
from chat.tools.kinds import Canceler, Executor
from chat.tools.mcp import call_mcp, cancel_mcp_task
from chat.tools.skills import load_skills
from chat.tools.web.page import read_page
from chat.tools.web.search import search_web

EXECUTORS: Mapping[ToolKind, Executor] = {
    ToolKind.HTTP: call_http,
    ToolKind.MCP: call_mcp,
    ToolKind.SEARCH: search_web,
    ToolKind.PAGE: read_page,
    ToolKind.FILES: read_files,
    ToolKind.SKILLS: load_skills,
}
CANCELERS: Mapping[ToolKind, Canceler] = {ToolKind.MCP: cancel_mcp_task}
