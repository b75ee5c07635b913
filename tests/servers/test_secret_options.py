"""Secret options of a server are sent to the server and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from chat import events as canonical
from chat.models import Attempt, Run, SeenEvent, Upstream, User
from chat.run_details.views.details import TABS
from chat.runs.segments import read_events, read_raw
from tests.runs.helpers import TEXT, threads, until
from tests.support.run_fixtures import Execute
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Script, answer, stream

TOKEN = "hf-canary-4e81b6a09d"
INTEGRATIONS = [
    {
        "type": "ephemeral_mcp",
        "server_label": "hub",
        "server_url": "https://mcp.example.com/",
        "headers": {"Authorization": f"Bearer {TOKEN}"},
    }
]
ECHO = TEXT.replace(b"river", TOKEN.encode())
STRANGE = b'event: x_odd\ndata: {"type": "x_odd", "seen": "%b"}\n\n' % TOKEN.encode()


IN_AN_ERROR = answer(
    {"error": {"message": f"MCP said no to {TOKEN}", "code": "mcp_connection_error"}},
    status=400,
    headers={"x-request-id": f"for-{TOKEN}"},
)


@pytest.mark.parametrize(
    "script",
    [stream(STRANGE, ECHO, split_bytes=7), IN_AN_ERROR],
    ids=["in the stream", "in an error"],
)
async def test_a_secret_option_that_comes_back_is_stored_and_shown_nowhere(
    fake: FakeUpstream,
    execute: Execute,
    upstream: Upstream,
    alice: User,
    signed_in: Callable[[User], Client],
    caplog: pytest.LogCaptureFixture,
    script: Script,
) -> None:
    upstream.set_secret_options({"integrations": INTEGRATIONS})
    await threads.call(upstream.save)

    ended = await execute(script)
    if ended.status == "completed":
        await until(lambda: SeenEvent.objects.filter(name="x_odd").exists())

    def everything() -> str:
        pages = [
            signed_in(alice).get(address).content.decode()
            for address in (
                *(f"{reverse('run_details', args=[ended.public_id])}?tab={tab}" for tab in TABS),
                reverse("conversation", args=[ended.conversation.public_id]),
            )
        ]
        rows = [
            list(Run.objects.values()),
            list(Attempt.objects.values()),
            list(SeenEvent.objects.values()),
            list(Upstream.objects.values()),
        ]
        log = b"".join(canonical.encode(event) for event in read_events(ended))
        return repr([pages, rows, log, read_raw(ended)])

    stored = await threads.call(everything)
    assert str(fake.requests[0].body["integrations"]).count(TOKEN) == 1
    assert TOKEN not in stored + caplog.text
    assert "[redacted]" in stored
