"""A tool that asks before it runs, and an answer that calls it."""

from __future__ import annotations

import pytest

from chat.models import Conversation, Run, Team, Tool, Upstream, User
from tests.tools.calling import make_tool, waiting_run


@pytest.fixture
def tool(team: Team, conversation: Conversation) -> Tool:
    tool = make_tool(team)
    conversation.tools.add(tool)
    return tool


@pytest.fixture
def run(alice: User, conversation: Conversation, upstream: Upstream, tool: Tool) -> Run:
    """It waits for approval of one call."""
    return waiting_run(alice, conversation, upstream, "weather")
