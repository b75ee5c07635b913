"""What is secret among a server's options goes to the server, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from chat import events as canonical
from chat.demo.fake import FakeUpstream
from chat.demo.script import Script, answer, stream
from chat.models import Attempt, Run, SeenEvent, Upstream, User
from chat.runs.segments import read_events, read_raw
from tests.runs.conftest import MakeRun, StartRunner, threads
from tests.runs.test_execution import TEXT, until, until_ended

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


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(stream(STRANGE, ECHO, split_bytes=7), id="in the stream"),
        pytest.param(
            answer(
                {"error": {"message": f"MCP said no to {TOKEN}", "code": "mcp_connection_error"}},
                status=400,
                headers={"x-request-id": f"for-{TOKEN}"},
            ),
            id="in an error",
        ),
    ],
)
async def test_a_secret_option_that_comes_back_is_stored_and_shown_nowhere(
    fake: FakeUpstream,
    make_run: MakeRun,
    start_runner: StartRunner,
    upstream: Upstream,
    alice: User,
    signed_in: Callable[[User], Client],
    caplog: pytest.LogCaptureFixture,
    script: Script,
) -> None:
    fake.script(script)

    def with_secret() -> Run:
        upstream.set_secret_options({"integrations": INTEGRATIONS})
        upstream.save()
        return make_run(base_url=fake.url)

    run = await threads.call(with_secret)
    await start_runner()
    ended = await until_ended(run)
    if ended.status == "completed":
        await until(lambda: SeenEvent.objects.filter(name="x_odd").exists())

    def everything() -> str:
        pages = [
            signed_in(alice).get(reverse(route, args=[public_id])).content.decode()
            for route, public_id in (
                ("run_details", ended.public_id),
                ("conversation", ended.conversation.public_id),
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
