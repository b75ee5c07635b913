"""MCP servers in a thread, and a tool of one of them in the records of a site."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import TypeVar
from uuid import UUID, uuid4

from chat.models import Tool
from chat.tools.definitions import tool_digest
from tests.runs.waiting import calling, saying, wire_call
from tests.support.processes.runs import assert_ended, text_of
from tests.support.processes.site import Site, soon
from tests.support.processes.tools import (
    answer_open_questions,
    call_statuses,
    follow_up_of,
    posts_to_model,
)

Opened = TypeVar("Opened")
SCHEMA = {"type": "object", "properties": {"ship": {"type": "string"}}}
# Longer than anything that goes right.
WAIT_SECONDS = 30.0


@contextlib.contextmanager
def in_thread(server: AbstractAsyncContextManager[Opened]) -> Iterator[Opened]:
    """What the server gives when it is entered, in an event loop of its own."""
    opened: list[Opened] = []
    is_open, ends = threading.Event(), []

    async def serve() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        ends.append(lambda: loop.call_soon_threadsafe(end.set))
        try:
            async with server as found:
                opened.append(found)
                is_open.set()
                await end.wait()
        finally:
            is_open.set()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert is_open.wait(WAIT_SECONDS)
    assert opened
    try:
        yield opened[0]
    finally:
        ends[0]()
        thread.join(WAIT_SECONDS)


def make_remote_tool(site: Site, url: str, name: str) -> UUID:
    """A tool that runs automatically, and a model that calls it once and then says "Done."."""
    tool = add_remote_tool(site, url, name)
    site.rows(
        "UPDATE chat_upstream SET dialect = 'openai_chat', base_url = ?", f"{site.fake.url}/v1"
    )
    site.fake.script(calling(wanted_call(name)), saying("Done."))
    return tool


def wanted_call(name: str) -> dict[str, object]:
    return wire_call(0, "c0", name, json.dumps({"ship": "Anna"}))


def add_remote_tool(site: Site, url: str, name: str) -> UUID:
    """The row of a tool of the server, and that of the server unless it is there."""
    tool = uuid4()
    definition = Tool(name=name, schema=SCHEMA)
    if not site.rows("SELECT id FROM chat_toolserver"):
        site.rows(
            "INSERT INTO chat_toolserver (public_id, team_id, name, address, sealed_headers,"
            " is_enabled, protocol, test, is_demo, created_at) VALUES"
            " (?, (SELECT id FROM chat_team), 'Harbor', ?, '', 1, '', '[]', 0, CURRENT_TIMESTAMP)",
            uuid4().hex,
            url,
        )
    site.rows(
        "INSERT INTO chat_tool (public_id, team_id, name, description, schema, kind, rule, server_id,"
        " remote_name, seen_digest, created_at)"
        " VALUES (?, (SELECT id FROM chat_team), ?, '', ?, 'mcp', 'auto',"
        " (SELECT id FROM chat_toolserver), ?, ?, CURRENT_TIMESTAMP)",
        *(tool.hex, name, json.dumps(SCHEMA), name, tool_digest(definition)),
    )
    return tool


def until_status(site: Site, *statuses: str) -> str:
    """Waits until the one call has one of them."""
    return str(soon(lambda: next((each for each in call_statuses(site) if each in statuses), "")))


def answer_input(site: Site, *, by: str = "Bob", **fields: str) -> None:
    """Answers what the call asks now, as a person does in a browser."""
    (row,) = soon(
        lambda: site.rows(
            "SELECT asked.public_id AS asked, question.public_id AS question FROM chat_toolinput asked"
            " JOIN chat_toolcall call ON call.id = asked.call_id"
            " JOIN chat_question question ON question.id = call.question_id"
            " WHERE asked.status = 'open' AND call.status = 'input'"
        )
    )
    path = f"/q/{UUID(str(row['question']))}/input/"
    answered = site.post(by, path, input=str(UUID(str(row["asked"]))), action="accept", **fields)
    assert answered.status_code == 302, answered.text


def assert_one_follow_up(site: Site, run: UUID) -> None:
    """The model got the result once, whoever gave it."""
    answer_open_questions(site)
    follow_up = follow_up_of(site, run)
    row = site.until_ended(follow_up)
    assert_ended(site, follow_up, row["status"])
    assert row["status"] == "completed"
    assert text_of(site, follow_up) == "Done."
    assert posts_to_model(site.fake) == 2
