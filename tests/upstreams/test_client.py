"""One request to an upstream: what is sent, what comes back, and what an error says."""

import asyncio
import socket
import sys
from contextlib import aclosing

import pytest

from chat.dialects.base import UpstreamRequest
from chat.upstreams.client import MAX_ERROR_BYTES, UpstreamLimits, join_url, open_client, stream
from chat.upstreams.failures import (
    FAILURES,
    UpstreamBroken,
    UpstreamError,
    UpstreamRefused,
    error_of,
)
from chat.upstreams.redaction import MARK, Redactor
from tests.support.hostile_server import (
    CHUNKED_HEAD,
    HEAD,
    STREAM_HEAD,
    UNFRAMED_HEAD,
    HostileServer,
    answer,
    chunk,
    hang,
    replying,
    reset,
    speak_plainly,
)
from tests.support.loop_clock import settle
from tests.upstreams.conftest import KEY, open_over

CREDENTIAL = {"Authorization": f"Bearer {KEY}"}
REQUEST = UpstreamRequest(path="/v1/chat", body=b'{"stream":true}')
LIMITS = UpstreamLimits(connect_seconds=20, write_seconds=60, head_seconds=100, idle_seconds=60)


def ask(client, url, *, headers=CREDENTIAL, request=REQUEST):
    return stream(
        client,
        base_url=url,
        request=request,
        headers=headers,
        limits=LIMITS,
        redactor=Redactor([KEY]),
    )


async def refusal(client, url, **options) -> UpstreamRefused:
    with pytest.raises(UpstreamRefused) as caught:
        async with ask(client, url, **options):
            pass
    return caught.value


async def read(client, url) -> tuple[bytes, UpstreamError | None]:
    received = []
    try:
        async with ask(client, url) as found:
            async for data in found.chunks():
                received.append(data)
    except UpstreamError as error:
        return b"".join(received), error
    return b"".join(received), None


async def test_request_is_sent_once_with_its_headers(client, serve):
    async with serve(replying(UNFRAMED_HEAD + b"data: x\n\n")) as server:
        body, error = await read(client, f"{server.url}/base/")

    assert (body, error) == (b"data: x\n\n", None)
    request = server.requests[0]
    assert (request.method, request.target, request.body) == ("POST", "/base/v1/chat", REQUEST.body)
    assert request.header("authorization") == f"Bearer {KEY}"
    assert request.header("accept") == "text/event-stream, application/json"
    assert request.header("accept-encoding") == "identity"
    assert request.header("content-type") == "application/json"
    assert server.posts == 1


async def test_request_is_not_held_while_the_answer_comes(policy, certificates, serve):
    body = bytes(100_000)
    references = sys.getrefcount(body)

    async with (
        serve(replying(UNFRAMED_HEAD + b"data: x\n\n")) as server,
        open_client(policy, certificates.trust) as client,
        ask(client, server.url, request=UpstreamRequest(path="/v1/chat", body=body)),
    ):
        assert sys.getrefcount(body) == references


async def test_key_split_over_chunks_is_redacted(client, serve):
    pieces = [f"data: {KEY[:9]}".encode(), KEY[9:].encode(), b" end\n\n"]
    data = CHUNKED_HEAD + b"".join(map(chunk, pieces)) + b"0\r\n\r\n"

    async with serve(replying(data)) as server:
        body, _ = await read(client, server.url)

    assert body == f"data: {MARK} end\n\n".encode()


async def test_key_in_a_header_is_redacted(client, serve):
    async with (
        serve(replying(answer(b"{}", headers=f"X-Echo: Bearer {KEY}\r\n"))) as server,
        ask(client, server.url) as found,
    ):
        headers = dict(found.headers)

    assert KEY not in repr(headers)


# (content type, body, whether it is a stream)
SHAPES = [
    ("text/event-stream", b"data: x\n\n", True),
    ("text/plain", b"data: x\n\n", True),
    ("text/html", b": hello\n\n", True),
    ("application/json", b'{"a":1}', False),
    ("text/event-stream", b'{"a":1}', False),
]


async def test_recognised_answer_keeps_its_first_bytes(client, serve, subtests):
    for content_type, body, is_stream in SHAPES:
        with subtests.test(msg=f"{content_type} {body!r}"):
            async with (
                serve(replying(answer(body, content_type))) as server,
                ask(client, server.url) as found,
            ):
                assert found.is_event_stream is is_stream
                assert await found.body(1000) == body


async def test_stream_is_recognised_byte_by_byte(client, serve):
    async def drip(peer):
        await peer.request()
        await peer.send(HEAD + b"\r\n")
        for byte in b"\n\ndata: x\n\n":
            await peer.send(bytes([byte]))
            await asyncio.sleep(0.001)
        await peer.finish()

    async with serve(drip) as server, ask(client, server.url) as found:
        assert found.is_event_stream
        assert await found.body(1000) == b"\n\ndata: x\n\n"


# name: (what the server sends, what follows, code, kind)
REFUSALS = {
    "web page": (answer(b"<!doctype html><html>", "text/html"), hang, "page", "protocol"),
    "empty": (answer(b""), hang, "empty", "protocol"),
    "empty stream": (UNFRAMED_HEAD, None, "empty", "protocol"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", hang, "empty", "protocol"),
    "compressed": (
        STREAM_HEAD + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        hang,
        "encoded",
        "protocol",
    ),
    "redirect": (
        answer(b"", status="301 Moved", headers="Location: http://10.0.0.1/secret\r\n"),
        hang,
        "redirect",
        "protocol",
    ),
    "not HTTP": (b"220 mail.test ESMTP\r\n\r\n", hang, "not_http", "protocol"),
    "closed without a head": (b"", None, "closed_early", "network"),
    "reset without a head": (b"", reset, "closed_early", "network"),
    "cut without a byte of body": (CHUNKED_HEAD, None, "closed_early", "network"),
    "silent": (b"", "silence", "head_timeout", "timeout"),
    "head and then silent": (UNFRAMED_HEAD, "silence", "head_timeout", "timeout"),
}
# name: (what the server sends, what follows, code, kind)
BREAKS = {
    "chunked cut": (CHUNKED_HEAD + chunk(b"data: kept\n\n"), None, "cut", "cut"),
    "length short": (STREAM_HEAD + b"Content-Length: 99\r\n\r\ndata: kept\n\n", None, "cut", "cut"),
    "reset": (CHUNKED_HEAD + chunk(b"data: kept\n\n"), reset, "cut", "cut"),
    "silent": (
        CHUNKED_HEAD + chunk(b"data: kept\n\n"),
        "silence",
        "idle_timeout",
        "idle_timeout",
    ),
    "malformed": (
        CHUNKED_HEAD + chunk(b"data: kept\n\n") + b"zz\r\n",
        hang,
        "not_http",
        "protocol",
    ),
}


def behaving(data, then, clock):
    if then is None:
        return replying(data)
    return replying(data, clock.advance_until_gone if then == "silence" else then)


async def test_refusal_before_any_output_is_explained(client, serve, clock, subtests):
    for name, (data, then, code, kind) in REFUSALS.items():
        with subtests.test(msg=name):
            async with serve(behaving(data, then, clock)) as server:
                error = await refusal(client, server.url)

            assert (error.info.code, error.info.kind) == (code, kind)
            assert not error.never_accepted
            assert error.info.message == FAILURES[code].message
            assert server.posts == 1


async def test_break_delivers_what_came_before_it(client, serve, clock, subtests):
    for name, (data, then, code, kind) in BREAKS.items():
        with subtests.test(msg=name):
            async with serve(behaving(data, then, clock)) as server:
                body, error = await read(client, server.url)

            assert body == b"data: kept\n\n"
            assert isinstance(error, UpstreamBroken)
            assert (error.info.code, error.info.kind) == (code, kind)
            assert server.posts == 1


async def test_bytes_held_for_the_redactor_precede_a_break(client, serve):
    async with serve(replying(CHUNKED_HEAD + chunk(b"data: sk-can"))) as server:
        body, error = await read(client, server.url)

    assert body == b"data: sk-can"
    assert isinstance(error, UpstreamBroken)


# (status, whether the server has certainly not begun)
STATUSES = [
    ("400 Bad", False),
    ("401 No", False),
    ("429 Slow", True),
    ("500 Oops", False),
    ("503 Busy", True),
]


async def test_error_status_comes_with_its_text(client, serve, subtests):
    body = b'{"error":{"message":"the reason","type":"x"}}'

    for status, never_accepted in STATUSES:
        data = answer(body, status=status, headers="Retry-After: 7\r\n")
        with subtests.test(msg=status):
            async with serve(replying(data, hang)) as server:
                error = await refusal(client, server.url)

            assert error.info.status == int(status[:3])
            assert error.info.message == "the reason"
            assert error.never_accepted is never_accepted
            assert server.posts == 1


async def test_key_in_an_error_body_is_redacted(client, serve):
    echo = (
        f'{{"error":{{"message":"Incorrect API key: {KEY[:8]}","code":"{KEY}","seen":["{KEY}"]}}}}'
    )

    async with serve(replying(answer(echo.encode(), status="401 Unauthorized"), hang)) as server:
        error = await refusal(client, server.url)

    assert error.info.kind == "auth"
    assert KEY[:8] not in repr(error.info)
    assert "canary" not in f"{error!r} {error} {error.__cause__!r}"


async def test_key_hidden_by_json_escapes_is_redacted(client, serve):
    echo = '{"error":{"message":"bad key \\u0073' + KEY[1:] + '"}}'

    async with serve(replying(answer(echo.encode(), status="401 Unauthorized"), hang)) as server:
        error = await refusal(client, server.url)

    assert KEY not in repr(error.info)


async def test_endless_error_body_is_read_up_to_a_limit(client, serve):
    async def flood(peer):
        await peer.request()
        await peer.send(b"HTTP/1.1 500 Oops\r\n\r\n")
        while True:
            await peer.send(b"a" * MAX_ERROR_BYTES)

    async with serve(flood) as server:
        error = await refusal(client, server.url)
        await server.wait_gone()

    assert error.info.status == 500
    assert len(error.info.message) < 1000


async def test_cut_error_body_still_gives_its_status(client, serve):
    data = b'HTTP/1.1 403 No\r\nContent-Length: 999\r\n\r\n{"error":'

    async with serve(replying(data)) as server:
        error = await refusal(client, server.url)

    assert (error.info.status, error.info.kind) == (403, "permission")


# name: (what is sent at first, what comes again and again)
DRIPS = {
    "headers": (HEAD, b"X: y\r\n"),
    "bytes of one header": (HEAD + b"X: ", b"H"),
    "blank lines before the body": (UNFRAMED_HEAD, b"\n"),
}


async def test_dripping_head_meets_its_deadline(client, serve, clock, subtests):
    for name, (begin, again) in DRIPS.items():

        async def drip(peer, begin=begin, again=again):
            await peer.request()
            await peer.send(begin)
            for _ in range(20):  # 200 s in all, and 10 s each
                await peer.send(again)
                await clock.advance(10)
            await peer.finish()

        with subtests.test(msg=name):
            async with serve(drip) as server:
                error = await refusal(client, server.url)
                await server.wait_gone()

            assert error.info.code == "head_timeout"


async def test_endless_informational_answers_are_ended(client, serve, clock, transport):
    async def hint(peer):
        await peer.request()
        for _ in range(20):
            await peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            # wire gives up after sixteen of them; stock waits for the deadline.
            await clock.advance(1 if transport == "wire" else 10)
        await peer.finish()

    async with serve(hint) as server:
        error = await refusal(client, server.url)
        await server.wait_gone()

    assert error.info.code == ("not_http" if transport == "wire" else "head_timeout")


async def test_first_byte_may_take_longer_than_idle_time(client, serve, clock):
    async def begin_late(peer):
        await peer.request()
        await peer.send(UNFRAMED_HEAD)
        await clock.advance(80)
        await peer.send(b"data: x\n\n")
        await peer.finish()

    async with serve(begin_late) as server:
        assert await read(client, server.url) == (b"data: x\n\n", None)


async def test_comments_keep_a_stream_alive(client, serve, clock):
    async def send_heartbeats(peer):
        await peer.request()
        await peer.send(UNFRAMED_HEAD)
        for _ in range(20):  # 200 s in all, and 10 s each
            await peer.send(b": heartbeat\n\n")
            await clock.advance(10)
        await peer.finish()

    async with serve(send_heartbeats) as server:
        body, error = await read(client, server.url)

    assert (body.count(b":"), error) == (20, None)


async def test_body_beyond_its_limit_is_refused(client, serve):
    async with (
        serve(replying(answer(b"{" + b" " * 5000))) as server,
        ask(client, server.url) as found,
    ):
        with pytest.raises(UpstreamBroken) as caught:
            await found.body(1000)

    assert caught.value.info.kind == "too_large"


async def test_bytes_taken_without_waiting_are_part_of_the_body(client, serve):
    async def behave(peer):
        await peer.request()
        await peer.send(UNFRAMED_HEAD + b"data: one\n\n")
        await peer.server.go_on.wait()
        await peer.send(b"data: two\n\n")
        await settle()
        await peer.send(b"data: three\n\n")
        await peer.finish()

    async with (
        serve(behave) as server,
        ask(client, server.url) as found,
        aclosing(found.chunks()) as chunks,
    ):
        body = await anext(chunks)
        server.go_on.set()
        while b"two" not in body:
            await settle()
            body += found.arrived() or await anext(chunks)
        async for data in chunks:
            body += data

    assert body == b"data: one\n\ndata: two\n\ndata: three\n\n"


async def test_leaving_the_stream_closes_the_connection(client, serve):
    async with serve(replying(UNFRAMED_HEAD + b"data: x\n\n", hang)) as server:
        async with ask(client, server.url) as found, aclosing(found.chunks()) as chunks:
            await anext(chunks)
        await server.wait_gone()


@pytest.mark.parametrize(
    "data", [b"", UNFRAMED_HEAD, UNFRAMED_HEAD + b"data: x\n\n"], ids=["head", "first byte", "body"]
)
async def test_cancelling_closes_the_connection(client, serve, data):
    async def behave(peer):
        await peer.request()
        await peer.send(data)
        peer.server.reached.set()

    async with serve(behave) as server:
        task = asyncio.create_task(read(client, server.url))
        await server.wait_reached()
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_gone()

    assert server.posts == 1


# --- before anything is sent ------------------------------------------------------------


async def test_refused_connection_was_never_accepted(client, scheme):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        error = await refusal(client, f"{scheme}://localhost:{bound.getsockname()[1]}")

    assert (error.info.code, error.info.kind) == ("connection_refused", "network")
    assert error.never_accepted
    assert error.info.retryable


async def test_unknown_name_was_never_accepted(client, scheme):
    error = await refusal(client, f"{scheme}://nowhere.invalid")

    assert (error.info.code, error.never_accepted) == ("unknown_host", True)


async def test_forbidden_address_is_not_named(client, scheme):
    error = await refusal(client, f"{scheme}://169.254.169.254/latest")

    assert (error.info.code, error.never_accepted, error.info.retryable) == (
        "address_refused",
        True,
        False,
    )
    assert "169.254" not in error.info.message


async def test_slow_handshake_is_a_connect_timeout(client, clock):
    async with HostileServer(clock.advance_until_gone) as server:
        error = await refusal(client, f"https://localhost:{server.port}")

    assert (error.info.code, error.never_accepted) == ("connect_timeout", True)


async def test_unknown_certificate_is_named(policy, transport, certificates):
    async with (
        HostileServer(hang, certificates.server) as server,
        open_over(transport, policy) as client,
    ):
        error = await refusal(client, server.url)

    assert (error.info.code, error.never_accepted) == ("certificate_self_signed", True)


async def test_certificate_for_another_name_is_named(client, certificates):
    async with HostileServer(hang, certificates.other_name) as server:
        error = await refusal(client, server.url)

    assert error.info.code == "certificate_name"


async def test_https_to_a_plain_server_is_named(client):
    async with HostileServer(speak_plainly) as server:
        error = await refusal(client, f"https://localhost:{server.port}")

    assert (error.info.code, error.never_accepted) == ("tls", True)


UNSENDABLE_KEYS = [
    "line\nbreak-secret",
    "tab\tsecret",
    "schlüssel-geheim",
    " padded-secret",
    "nul\0secret",
]


async def test_unsendable_key_is_never_quoted(client, subtests):
    async with HostileServer(hang) as server:
        for key in UNSENDABLE_KEYS:
            with subtests.test(msg=repr(key)):
                error = await refusal(client, server.url, headers={"Authorization": key})

                assert (error.info.code, error.never_accepted) == ("bad_header", True)
                shown = f"{error!r} {error.info!r} {error.__cause__!r} {error.__context__!r}"
                assert key.strip() not in shown

    assert server.connections == 0


UNUSABLE_URLS = [
    "",
    "localhost:1234",
    "ftp://host/",
    "http://",
    "http://user:pw@host",
    "http://host/?a=b",
    "http://host/#x",
    "http://ho st",
    "http://[::1",
    "file:///etc/passwd",
]


def test_unusable_base_url_is_refused(subtests):
    for base_url in UNUSABLE_URLS:
        with subtests.test(msg=base_url):
            with pytest.raises(UpstreamRefused) as caught:
                join_url(base_url, "/v1/models")

            assert caught.value.info.code == "bad_url"


@pytest.mark.parametrize(
    ("base_url", "path", "expected"),
    [
        ("http://host:1234", "/api/v1/chat", "http://host:1234/api/v1/chat"),
        ("http://host/v1/", "chat", "http://host/v1/chat"),
        (" https://[::1]:8/a ", "/b", "https://[::1]:8/a/b"),
    ],
)
def test_path_goes_below_the_base_url(base_url, path, expected):
    assert join_url(base_url, path) == expected


def test_unforeseen_exception_has_a_fixed_sentence():
    info = error_of(RuntimeError(f"at 10.0.0.1 with {KEY}"), has_output=True)

    assert (info.kind, info.message) == ("unknown", FAILURES["unknown"].message)
