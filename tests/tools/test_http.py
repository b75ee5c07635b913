"""Tools of kind ``http``: the request that is built from arguments, and what a server's response becomes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from pytest_django import Settings

from chat.events import JsonObject
from chat.models import ToolKind
from chat.tools.http import build, call_http
from chat.tools.kinds import Address, CallFailed, CallOutput, CallRequest, Recording
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import Client, open_client
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Close, Flood, Hang, Head, Reset, Script, Send, answer
from tests.tools.calling import never

# --- the request -----------------------------------------------------------------------------------

HOSTILE = "../../admin?x=1&y=2#z\\@evil.example:80//"


@pytest.mark.parametrize(
    ("address", "arguments", "url"),
    [
        ("http://a.example/w/{city}", {"city": "Oslo"}, "http://a.example/w/Oslo"),
        ("http://a.example/w", {"city": "Å b", "n": 2}, "http://a.example/w?city=%C3%85+b&n=2"),
        ("http://a.example/w?u=c", {"city": ["a", "b"]}, "http://a.example/w?u=c&city=a&city=b"),
        ("http://a.example/w?q={q}", {"q": "a&b=c"}, "http://a.example/w?q=a%26b%3Dc"),
        ("http://a.example/{n}.json", {"n": 3, "on": True}, "http://a.example/3.json?on=true"),
        ("http://a.example", {}, "http://a.example/"),
        (
            "http://a.example/w",
            {"f": {"x": [1]}, "no": None},
            "http://a.example/w?f=%7B%22x%22%3A%5B1%5D%7D",
        ),
        (
            "http://a.example:8/w/{city}/now",
            {"city": HOSTILE},
            "http://a.example:8/w/..%2F..%2Fadmin%3Fx%3D1%26y%3D2%23z%5C%40evil.example%3A80%2F%2F/now",
        ),
    ],
)
def test_arguments_are_part_of_the_address(address: str, arguments: JsonObject, url: str) -> None:
    assert build(Address(url=address, method="GET"), arguments) == (url, b"")


def test_other_arguments_are_the_body() -> None:
    address = Address(url="http://a.example/rooms/{room}", method="POST")

    url, body = build(address, {"room": "1", "from": 9, "who": ["Ana"]})

    assert url == "http://a.example/rooms/1"
    assert json.loads(body) == {"from": 9, "who": ["Ana"]}


@pytest.mark.parametrize(
    ("address", "arguments"),
    [
        ("http://{city}/w", {"city": "evil.example"}),
        ("http://a.example:{city}/w", {"city": "80"}),
        ("http://{city}@a.example/w", {"city": "x"}),
        ("{city}://a.example/w", {"city": "http"}),
        ("ftp://a.example/{city}", {"city": "x"}),
        ("http://user:secret@a.example/", {}),
        ("http://a.example:port/", {}),
        ("http:///w", {}),
        ("http://a.example/{city}/w", {"city": ".."}),
        ("http://a.example/{city}/w", {"city": "."}),
        ("http://a.example/{city}/w", {"city": ""}),
        ("http://a.example/{a}{b}/w", {"a": ".", "b": "."}),
        ("http://a.example/%2e{b}/w", {"b": "."}),
        ("http://a.example/{city}", {}),
        ("http://a.example/{city}", {"city": None}),
        ("http://a.example/", {"city": "x" * 9000}),
    ],
)
def test_argument_that_would_change_the_address_is_refused(
    address: str, arguments: JsonObject
) -> None:
    with pytest.raises(CallFailed) as failed:
        build(Address(url=address, method="GET"), arguments)

    assert not failed.value.may_have_run


@pytest.mark.parametrize(
    ("url", "declared", "arguments", "words"),
    [
        ("http://a.example/w", ["q"], {"q": "x", "admin": True}, "no argument of this name: admin"),
        ("http://a.example/w", [], {"admin": None}, "no argument of this name: admin"),
        ("http://a.example/w?scope=public&q={q}", ["q"], {"q": "x", "scope": "admin"}, "scope"),
        ("http://a.example/w?scope=public", ["scope"], {"scope": "admin"}, "can’t replace"),
        ("http://a.example/w?sc%6fpe=", None, {"scope": "admin"}, "can’t replace"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_argument_that_nobody_declared_or_that_is_fixed_is_refused(
    method: str, url: str, declared: list[str] | None, arguments: JsonObject, words: str
) -> None:
    with pytest.raises(CallFailed, match=words) as failed:
        build(Address(url=url, method=method, arguments=declared), arguments)

    assert not failed.value.may_have_run


# --- the response ----------------------------------------------------------------------------------


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with open_client(AddressPolicy.parse("any")) as client:
        yield client


class Calls:
    """Calls a tool at the fake server; knows whether the call was announced before it was sent."""

    def __init__(self, client: Client, fake: FakeUpstream) -> None:
        self.client = client
        self.fake = fake
        self.announced_at: list[int] = []
        self.recordings: list[Recording] = []

    async def __call__(
        self,
        script: Script | None = None,
        *,
        method: str = "POST",
        url: str = "",
        headers: dict[str, str] | None = None,
        most_bytes: int = 1000,
    ) -> CallOutput:
        if script is not None:
            self.fake.script(script)

        async def sent() -> None:
            self.announced_at.append(len(self.fake.requests))

        return await call_http(
            CallRequest(
                kind=ToolKind.HTTP,
                address=Address(
                    url=url or f"{self.fake.url}/tool", method=method, headers=headers or {}
                ),
                arguments={"city": "Oslo"},
                most_bytes=most_bytes,
                client=self.client,
                sent=sent,
                report=lambda progress: None,
                store_task=never,
                ask=never,
                record=self.recordings.append,
            )
        )


@pytest.fixture
def call(client: Client, fake: FakeUpstream) -> Calls:
    return Calls(client, fake)


async def test_json_is_the_result(call: Calls) -> None:
    output = await call(answer({"rain": True}))

    assert json.loads(output.text) == {"rain": True}
    assert not output.is_error
    (request,) = call.fake.requests
    assert (request.method, request.body) == ("POST", {"city": "Oslo"})
    assert "cookie" not in request.headers
    assert call.announced_at == [0]


async def test_error_status_is_an_error_with_its_body(call: Calls) -> None:
    output = await call(answer({"detail": "No such city"}, status=404))

    assert output.is_error
    assert output.text.startswith("HTTP status 404.")
    assert "No such city" in output.text


async def test_empty_response_says_its_status(call: Calls) -> None:
    output = await call(answer(b"", status=200))

    assert (output.text, output.is_error) == ("HTTP status 200, without content.", False)


async def test_text_is_read_in_its_character_set(call: Calls) -> None:
    body = "Ærø".encode("latin-1")
    output = await call(answer(body, content_type="text/plain; charset=iso-8859-1"))

    assert output.text == "Ærø"


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-7", "unicode_escape", "hex", "none"])
async def test_other_character_sets_are_read_as_utf8(call: Calls, charset: str) -> None:
    body = "Ærø-+AGE-\\x61".encode()
    output = await call(answer(body, content_type=f"text/plain; charset={charset}"))

    assert output.text == body.decode()


async def test_picture_is_a_file(call: Calls) -> None:
    output = await call(answer(b"\x89PNG\x00", content_type="image/png"))

    (file,) = output.files
    assert (file.media_type, file.content) == ("image/png", b"\x89PNG\x00")
    assert "image/png" in output.text


async def test_headers_are_sent_and_never_come_back(call: Calls) -> None:
    secret = "sekrit-abcdef-123456"
    output = await call(
        answer(f"You sent {secret}"), headers={"X-Key": secret, "Host": "evil.example"}
    )

    assert output.text == "You sent [redacted]"
    (request,) = call.fake.requests
    assert request.headers["x-key"] == secret
    assert request.headers["host"] in call.fake.url


@pytest.mark.parametrize("headers", [{"X-Key": "a\r\nb: c"}, {"X Key": "a"}, {"X-Key": "ä"}])
async def test_header_that_http_forbids_is_not_sent(call: Calls, headers: dict[str, str]) -> None:
    with pytest.raises(CallFailed, match="header"):
        await call(headers=headers)

    assert call.announced_at == []


async def test_path_of_the_address_is_not_recorded(call: Calls) -> None:
    await call(answer({}), url=f"{call.fake.url}/tool?key=of-the-webhook")

    [recording] = call.recordings
    assert recording.sent.startswith(f"POST {call.fake.url}/…")
    assert "of-the-webhook" not in recording.sent


async def test_redirect_is_not_followed(call: Calls) -> None:
    output = await call(answer("", status=307, headers={"Location": f"{call.fake.url}/other"}))

    assert output.is_error
    assert "redirects" in output.text
    assert [request.path for request in call.fake.requests] == ["/tool"]


HEAD = Head(headers={"Content-Type": "text/plain"}, framing="length", length=50)


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (Script(steps=(Close(),)), "closed the connection"),
        (Script(steps=(Reset(),)), "connection"),
        (Script(steps=(HEAD, Send(base64=b"half of it"), Close())), "lost before the result"),
        (answer({}, headers={"Content-Encoding": "gzip"}), "compressed"),
    ],
)
async def test_server_that_dies_may_have_run_the_call(
    call: Calls, script: Script, sentence: str
) -> None:
    with pytest.raises(CallFailed, match=sentence) as failed:
        await call(script)

    assert failed.value.may_have_run
    assert len(call.fake.requests) == 1


async def test_server_that_is_not_there_has_not_run_it(call: Calls) -> None:
    with pytest.raises(CallFailed, match="refused") as failed:
        await call(url="http://127.0.0.1:9/")

    assert not failed.value.may_have_run


async def test_large_result_is_cut_off_while_it_is_read(call: Calls) -> None:
    endless = Script(steps=(Head(), Flood(base64=b"x" * 65536)))

    with pytest.raises(CallFailed, match="larger than the limit") as failed:
        await call(endless)

    assert not failed.value.may_have_run
    await call.fake.until(lambda fake: fake.disconnects == 1)


async def test_call_that_is_cancelled_closes_its_connection(call: Calls) -> None:
    task = asyncio.create_task(call(Script(steps=(Hang(),))))
    await call.fake.until(lambda fake: len(fake.requests) == 1)

    task.cancel()

    await call.fake.until(lambda fake: fake.disconnects == 1)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "http://169.254.169.254/latest/"])
async def test_forbidden_address_is_refused(fake: FakeUpstream, url: str) -> None:
    async with open_client(AddressPolicy.parse("")) as client:
        with pytest.raises(CallFailed, match="aren’t allowed") as failed:
            await Calls(client, fake)(url=url)

    assert not failed.value.may_have_run


async def test_connection_has_a_limit_of_its_own(call: Calls, settings: Settings) -> None:
    settings.TOOL_CONNECT_SECONDS = 0.0

    with pytest.raises(CallFailed) as failed:
        await call(answer({}))

    assert not failed.value.may_have_run
