"""A tool server as people use it: they add it and turn its tools on, a runner reads them and calls them in answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from chat import access
from chat import events as canonical
from chat.models import (
    InputStatus,
    Question,
    Run,
    Team,
    Tool,
    ToolCall,
    ToolCredentials,
    ToolInput,
    ToolRule,
    ToolServer,
    User,
)
from chat.questions import input_actions
from chat.questions.input_forms import InputForm
from chat.tools import servers
from chat.tools.definitions import tool_digest
from chat.tools.sign_in import actions
from chat.tools.sign_in.waiting_calls import go_on_connected
from tests.runs.helpers import threads, until, until_ended
from tests.runs.waiting import calling, saying, wire_call
from tests.support.run_fixtures import MakeRun
from tests.support.upstream.fake import FakeUpstream
from tests.tools.calling import call_of, follow_up_of
from tests.tools.sign_in.conftest import answer_in

# Sign-ins that a person makes before giving up.
MOST_SIGN_INS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call as it ended: the item of the answer, and the rows behind its card."""

    item: canonical.ToolCallItem
    row: ToolCall
    question: Question
    files: list[tuple[str, str]]
    progress: list[Mapping[str, Any]]


@dataclass(slots=True, kw_only=True)
class Product:
    """One server, and Alice, who manages it and asks."""

    alice: User
    team: Team
    fake: FakeUpstream
    make_run: MakeRun
    # Values for the forms that tools show, by the names of the fields; others keep what the form has.
    values: dict[str, object] = field(default_factory=dict)
    sign_ins: int = 0
    server: ToolServer = field(init=False)

    async def add(self, url: str, *, signs_in: bool = False) -> None:
        self.server = await threads.call(
            lambda: servers.add_server(
                self.alice,
                self.team,
                name="Reference",
                address=url,
                headers={},
                signs_in_people=signs_in,
            )
        )

    async def read(self) -> dict[str, str]:
        """The outcome of each step of the server's test, once a runner has made it."""
        tested = ToolServer.objects.filter(pk=self.server.pk, test_queued_at=None)
        await until(tested.exists)
        await threads.call(self.server.refresh_from_db)
        return {step["name"]: step["outcome"] for step in self.server.test}

    async def connect(self, url: str) -> dict[str, str]:
        """Adds the server; if it asks for a sign-in, with accounts, and Alice signs in, at most twice."""
        await self.add(url)
        outcomes = await self.read()
        if "failed" in outcomes.values():
            await threads.call(_let_people_sign_in, self.alice, self.server)
            await self.read()
        while "failed" in outcomes.values() and self.sign_ins < MOST_SIGN_INS:
            await self.sign_in()
            outcomes = await self.read()
        return outcomes

    async def connect_registered(self, url: str, client_id: str, secret: str) -> None:
        """As ``connect``, for a sign-in server at which an administrator has registered this installation."""
        await self.add(url, signs_in=True)
        await self.read()
        await threads.call(_enter_client, self.alice, self.server, client_id, secret)
        await self.sign_in()
        await self.read()

    async def sign_in(self, question: Question | None = None) -> None:
        """As the pages do, with a browser that is sent on at once. Raises ``ActionRefused``."""
        self.sign_ins += 1
        page = await threads.call(
            lambda: actions.begin_sign_in(
                self.alice, self.server, question=question, is_for_listing=question is None
            )
        )
        async with httpx2.AsyncClient(trust_env=False) as browser:
            sent_on = await browser.get(page.address)
        answer = answer_in(sent_on.headers["location"])

        def finish() -> None:
            actions.finish(self.alice, actions.take_sign_in(self.alice, answer["state"]), answer)
            if question is not None:
                go_on_connected(self.alice, question)

        await threads.call(finish)

    async def tools(self) -> dict[str, Tool]:
        tools = await threads.call(lambda: list(self.server.tools.all()))
        return {tool.remote_name: tool for tool in tools}

    async def call(self, name: str, arguments: Mapping[str, object]) -> Called:
        """An answer calls the tool, which runs by itself; Alice answers what it asks, and signs in where the card says
        so."""
        tool = (await self.tools())[name]
        await threads.call(_turn_on, self.alice, tool)
        given = wire_call(0, "c1", tool.name, json.dumps(dict(arguments)))
        self.fake.script(calling(given), saying("Done."))
        run = await threads.call(
            lambda: self.make_run(
                "Hello", dialect="openai_chat", base_url=f"{self.fake.url}/v1", tools=[tool]
            )
        )
        progress: list[Mapping[str, Any]] = []
        while await threads.call(follow_up_of, run) is None:
            await self._look(run, progress)
            await asyncio.sleep(0.02)
        follow_up = await until_ended(await threads.call(follow_up_of, run))
        return await threads.call(_called, run, follow_up, progress)

    async def _look(self, run: Run, progress: list[Mapping[str, Any]]) -> None:
        """As somebody who looks at the card now."""
        calls = await threads.call(lambda: list(_calls(run)))
        for call in calls:
            if call.progress and call.progress not in progress:
                progress.append(call.progress)
            if call.status == "approval" and self.sign_ins < MOST_SIGN_INS:
                await self.sign_in(call.question)
        for row in await threads.call(lambda: list(_inputs(run))):
            await threads.call(_answer, self.alice, row, self.values)


def _let_people_sign_in(user: User, server: ToolServer) -> None:
    servers.change_server(
        user,
        server,
        name=server.name,
        address=server.address,
        headers=None,
        signs_in_people=True,
    )


def _enter_client(user: User, server: ToolServer, client_id: str, secret: str) -> None:
    issuer = actions.find_issuer(user, server)
    actions.enter_client_of(user, server, issuer=issuer, client_id=client_id, secret=secret)


def _turn_on(user: User, tool: Tool) -> None:
    servers.set_rule(
        user,
        tool,
        rule=ToolRule.AUTO,
        digest=tool_digest(tool),
        keeps_private=False if tool.server.credentials == ToolCredentials.PERSON else None,
    )


def _calls(run: Run) -> Any:
    return ToolCall.objects.filter(question__run=run).select_related("question__conversation")


def _inputs(run: Run) -> Any:
    rows = ToolInput.objects.filter(call__question__run=run, status=InputStatus.OPEN)
    return rows.select_related("call__question__conversation", "call__question__run")


def _answer(user: User, row: ToolInput, values: Mapping[str, object]) -> None:
    """Sends the form as the page shows it, with these values typed in."""
    shown = InputForm(asked=row)
    posted: dict[str, object] = {"action": "accept"}
    for (bound, _), asked in zip(shown.bound_fields, shown.asked_fields, strict=True):
        posted[bound.html_name] = values.get(asked.name, bound.value())
    form = InputForm(posted, asked=row)
    assert form.is_valid(), form.errors
    call = access.get_tool_call(user, row.call.question.public_id, for_write=True)
    input_actions.answer(user, call, row, "accept", form.content())


def _called(run: Run, follow_up: Run, progress: list[Mapping[str, Any]]) -> Called:
    row = call_of(run)
    item = canonical.decode_result(follow_up.result).output[0]
    assert isinstance(item, canonical.ToolCallItem)
    files = [(each.file.media_type, each.file.name) for each in run.files.select_related("file")]
    return Called(item=item, row=row, question=row.question, files=files, progress=progress)
