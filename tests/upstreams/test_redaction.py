import json
import tracemalloc
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.dialects.base import Dialect, Parameter
from chat.events import ErrorInfo
from chat.upstreams.redaction import MARK, Redactor, credentials_of

SECRET = "sk-canary-0123456789abcdef"
OTHER = "sk-canary-0123456789abcdef-longer"


def through(redactor: Redactor, pieces: list[bytes]) -> bytes:
    return b"".join([*(redactor.chunk(piece) for piece in pieces), redactor.flush()])


def split(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", range(1, 40))
def test_secret_split_over_chunks_of_any_size_is_replaced(size):
    data = f"a {SECRET} b{SECRET}{SECRET} sk-canary-0 c".encode()

    assert through(Redactor([SECRET]), split(data, size)) == (
        f"a {MARK} b{MARK}{MARK} sk-canary-0 c".encode()
    )


@pytest.mark.parametrize("size", range(1, 40))
def test_longer_secret_goes_as_a_whole(size):
    data = f"{OTHER} {SECRET} {SECRET}-long".encode()

    assert (
        through(Redactor([SECRET, OTHER]), split(data, size))
        == f"{MARK} {MARK} {MARK}-long".encode()
    )


def test_bytes_that_cannot_begin_a_secret_are_not_held_back():
    redactor = Redactor([SECRET])

    assert redactor.chunk(b"data: hello\n\n") == b"data: hello\n\n"
    assert redactor.chunk(b"data: ask") == b"data: a"
    assert redactor.chunk(b"ew\n\n") == b"skew\n\n"
    assert redactor.flush() == b""


def test_end_that_only_looked_like_a_secret_is_given_back():
    redactor = Redactor([SECRET])

    assert redactor.chunk(b"x sk-canary") == b"x "
    assert redactor.flush() == b"sk-canary"


@pytest.mark.parametrize(
    "form", [json.dumps('k"ey/with\\odd chars+é')[1:-1], 'k"ey/with\\odd chars+é']
)
def test_secret_is_found_as_json_spells_it(form):
    redactor = Redactor(['k"ey/with\\odd chars+é'])

    assert through(redactor, [f"<{form}>".encode()]) == f"<{MARK}>".encode()


@given(
    st.lists(st.sampled_from([SECRET, SECRET[:9], SECRET[9:], "s", "sk", " ", "é", OTHER[:-1]])),
    st.data(),
)
def test_no_split_lets_a_secret_through(parts, data):
    body = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    cleaned = through(Redactor([SECRET]), pieces)

    assert cleaned == body.replace(SECRET.encode(), MARK.encode())


def test_without_a_secret_bytes_pass_untouched():
    data = b"anything at all"

    assert Redactor([""]).chunk(data) is data


def test_short_placeholder_key_does_not_eat_an_answer():
    assert through(Redactor(["none"]), [b"none of the nonesuch"]) == b"none of the nonesuch"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bad key none given", f"bad key {MARK} given"),
        ("nonesuch", "nonesuch"),
    ],
)
def test_short_key_leaves_an_error_as_a_whole_word(text, expected):
    assert Redactor(["none"]).text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {SECRET}.",
        f"Incorrect API key provided: {SECRET[:8]}****cdef.",
        f"key {SECRET[:8]}xyz is unknown",
        "key sk-c********cdef is unknown",
        "key sk-…cdef is unknown",
        "key sk-...cdef is unknown",
        f"Authorization: Bearer {SECRET[3:]}",
        "bearer: abcdef123456",
    ],
)
def test_error_text_keeps_nothing_that_looks_like_the_key(text):
    cleaned = Redactor([SECRET]).text(text)

    assert MARK in cleaned
    assert not any(part in cleaned for part in (SECRET, SECRET[:8], "cdef.", "…cdef", "123456"))


def test_ordinary_error_text_stays():
    text = "The model `qwen/qwen3` does not exist. Loading... see https://example.org/sk/docs"

    assert Redactor([SECRET]).text(text) == text


@pytest.mark.parametrize(
    "text", ["a" * 300_000, "-_" * 100_000, "a*" * 100_000, "sk-" * 100_000, "Bearer x " * 50_000]
)
def test_long_runs_cost_no_more_than_their_length(text):
    # A pattern that is quadratic needs minutes for these.
    assert Redactor([SECRET]).text(text) == text


def test_redacting_twice_changes_nothing_more():
    once = Redactor([SECRET]).text(f"Bearer {SECRET} and {SECRET[:8]}zz")

    assert Redactor([SECRET]).text(once) == once


def test_every_member_of_an_error_is_cleaned():
    info = ErrorInfo(
        message=f"no {SECRET}",
        code=SECRET,
        param=SECRET,
        upstream={"a": [{SECRET: f"x{SECRET}", "n": 1, "t": True, "z": None}]},
    )

    cleaned = Redactor([SECRET]).error(info)

    assert SECRET not in repr(cleaned)
    assert cleaned.upstream == {"a": [{MARK: f"x{MARK}", "n": 1, "t": True, "z": None}]}


def test_deeply_nested_error_body_ends():
    nested: object = SECRET
    for _ in range(5000):
        nested = [nested]

    assert SECRET not in repr(Redactor([SECRET]).error(ErrorInfo(upstream=nested)).upstream)


def test_endless_beginnings_of_a_secret_hold_back_less_than_one():
    redactor = Redactor([SECRET])
    tracemalloc.start()
    for _ in range(20_000):
        redactor.chunk(SECRET[:-1].encode())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 100_000
    assert len(redactor.flush()) < len(SECRET)


# --- the secrets in a server's options ------------------------------------------------------

TOKEN = "hf_canary0123456789"


class Secretive(Dialect):
    name: ClassVar[str] = "secretive"
    label: ClassVar[str] = "Secretive"
    options: ClassVar[tuple[Parameter, ...]] = (
        Parameter(name="headers", label="Headers", kind="json", is_secret=True),
        Parameter(name="headers_of_tools", label="Tools", kind="json", is_secret=True),
        Parameter(name="region", label="Region", kind="text"),
    )


@pytest.mark.parametrize(
    "value",
    [
        {"Authorization": f"Bearer {TOKEN}"},
        [{"server_label": "hub", "headers": {"X-Key": TOKEN}}],
        f"Authorization: Bearer {TOKEN}\nX-Region: north-sea",
        {"server_url": f"https://mcp.example.com/sse?token={TOKEN}"},
        {"server_url": f"https://me:{TOKEN}@mcp.example.com/"},
        TOKEN,
        {"deep": {"deeper": [TOKEN]}},
        [{"type": "url", "name": "hub", "authorization_token": TOKEN}],
        [{"type": "mcp", "server_label": "hub", "authorization": f"Basic {TOKEN}"}],
        {"env": {"HUB": TOKEN}},
    ],
)
def test_secret_in_an_option_is_taken_out_of_streams_and_texts(value: object) -> None:
    redactor = Redactor(credentials_of(Secretive(), "", {"headers": value}))

    streamed = redactor.chunk(f"seen {TOKEN[:5]}".encode())
    streamed += redactor.chunk(f"{TOKEN[5:]} there".encode()) + redactor.flush()

    assert streamed == f"seen {MARK} there".encode()
    assert TOKEN not in redactor.text(f"refused: {TOKEN}")


BESIDE = [
    pytest.param(
        [
            "mcp/huggingface",
            {
                "type": "ephemeral_mcp",
                "server_label": "huggingface-2026-hub",
                "server_url": "https://mcp.example.com/sse",
                "allowed_tools": ["model_search"],
                "headers": {"Accept": "application/json", "Authorization": TOKEN},
            },
        ],
        "mcp/huggingface ephemeral_mcp huggingface-2026-hub https://mcp.example.com/sse "
        "model_search application/json",
        id="MCP servers",
    ),
    pytest.param(
        [
            {"type": "web_search_20260305", "user_location": {"city": "Frankfurt am Main"}},
            {"type": "mcp", "require_approval": "never", "headers": {"X-Key": TOKEN}},
        ],
        "web_search_20260305 Frankfurt am Main never",
        id="tools of the server",
    ),
]


@pytest.mark.parametrize(("value", "told"), BESIDE)
def test_what_stands_beside_the_secrets_stays_readable(value: object, told: str) -> None:
    options = {"headers_of_tools": value, "region": "northern"}

    redactor = Redactor(credentials_of(Secretive(), "", options))

    assert redactor.chunk(f"{told} northern {TOKEN}".encode()) + redactor.flush() == (
        f"{told} northern {MARK}".encode()
    )
    assert redactor.text(told) == told
