"""The client of a runner, and calls over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from chat.models import ToolKind
from chat.tools.kinds import (
    Address,
    AskedInput,
    CallFailed,
    CallOutput,
    CallRequest,
    Continuation,
    InputNeeded,
    InputReply,
    Recording,
)
from chat.tools.mcp import call_mcp, list_tools
from chat.tools.mcp.listing import ListingFailed, ListRequest, ToolListing
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import Client, open_client

KEY = "sk-canary-0123456789abcdef"


@dataclass
class Caller:
    """What a runner does with calls, recorded."""

    client: Client
    sent: int = 0
    progress: list[Mapping[str, Any]] = field(default_factory=list)
    steps: list[tuple[str, str, str]] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    asked: list[AskedInput] = field(default_factory=list)
    heard: list[bool] = field(default_factory=list)
    changes: int = 0
    recordings: list[Recording] = field(default_factory=list)
    reply: InputReply = field(default_factory=lambda: InputReply(action="cancel"))

    def request(self, url: str, name: str, arguments: Any = None, **values: Any) -> CallRequest:
        async def sent() -> None:
            self.sent += 1

        async def store_task(task: str) -> bool:
            self.tasks.append(task)
            return not values.get("is_dropped", False)

        async def ask(asked: AskedInput) -> InputReply:
            self.asked.append(asked)
            return self.reply

        def list_changed() -> None:
            self.changes += 1

        headers, schema = values.pop("headers", {}), values.pop("schema", {})
        return CallRequest(
            kind=ToolKind.MCP,
            address=Address(url=url, name=name, headers=headers, schema=schema),
            arguments=arguments or {},
            most_bytes=values.pop("most_bytes", 1024 * 1024),
            client=self.client,
            sent=sent,
            report=self.progress.append,
            store_task=store_task,
            ask=ask,
            heard=self.heard.append,
            list_changed=list_changed,
            traceparent=values.pop("traceparent", ""),
            renew=values.pop("renew", None),
            record=self.recordings.append,
            continuation=values.pop("continuation", Continuation()),
        )

    async def call(self, url: str, name: str, arguments: Any = None, **values: Any) -> CallOutput:
        ending = await call_mcp(self.request(url, name, arguments, **values))
        assert isinstance(ending, CallOutput)
        return ending

    async def needs(self, url: str, name: str = "any", **values: Any) -> InputNeeded:
        ending = await call_mcp(self.request(url, name, **values))
        assert isinstance(ending, InputNeeded)
        return ending

    async def failure(self, url: str, name: str = "any", **values: Any) -> CallFailed:
        with pytest.raises(CallFailed) as caught:
            await self.call(url, name, **values)
        return caught.value

    async def list(self, url: str, **headers: str) -> ToolListing:
        return await list_tools(
            ListRequest(
                url=url,
                headers=headers,
                client=self.client,
                step=lambda *step: self.steps.append(step),
            )
        )

    async def list_failure(self, url: str, **headers: str) -> str:
        with pytest.raises(ListingFailed) as caught:
            await self.list(url, **headers)
        return str(caught.value)


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    async with open_client(AddressPolicy.parse("any")) as client:
        yield Caller(client)
