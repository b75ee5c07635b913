"""Credentials are taken out of streams, errors and texts, however they are cut or spelled."""

import json
import tracemalloc
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.dialects.base import Dialect
from chat.dialects.parameters import Parameter
from chat.events import ErrorInfo
from chat.upstreams.redaction import MARK, Redactor, credentials_of
from tests.upstreams.conftest import KEY as SECRET

OTHER = f"{SECRET}-longer"


def clean(redactor: Redactor, pieces: list[bytes]) -> bytes:
    return b"".join([*(redactor.chunk(piece) for piece in pieces), redactor.flush()])


def split(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


# name: (secrets, body, what is left of it)
SPLIT = {
    "one secret": (
        [SECRET],
        f"a {SECRET} b{SECRET}{SECRET} sk-canary-0 c",
        f"a {MARK} b{MARK}{MARK} sk-canary-0 c",
    ),
    "one begins like the other": (
        [SECRET, OTHER],
        f"{OTHER} {SECRET} {SECRET}-long",
        f"{MARK} {MARK} {MARK}-long",
    ),
}


@pytest.mark.parametrize(("secrets", "body", "left"), SPLIT.values(), ids=SPLIT)
def test_secret_in_chunks_of_any_size_is_replaced(secrets, body, left, subtests):
    for size in range(1, 40):
        with subtests.test(msg=f"chunks of {size}"):
            assert clean(Redactor(secrets), split(body.encode(), size)) == left.encode()


def test_bytes_that_begin_no_secret_are_not_held_back():
    redactor = Redactor([SECRET])

    assert redactor.chunk(b"data: hello\n\n") == b"data: hello\n\n"
    assert redactor.chunk(b"data: ask") == b"data: a"
    assert redactor.chunk(b"ew\n\n") == b"skew\n\n"
    assert redactor.flush() == b""


def test_false_beginning_of_a_secret_is_given_back():
    redactor = Redactor([SECRET])

    assert redactor.chunk(b"x sk-canary") == b"x "
    assert redactor.flush() == b"sk-canary"


@pytest.mark.parametrize(
    "form", [json.dumps('k"ey/with\\odd chars+é')[1:-1], 'k"ey/with\\odd chars+é']
)
def test_secret_is_found_in_json_spelling(form):
    redactor = Redactor(['k"ey/with\\odd chars+é'])

    assert clean(redactor, [f"<{form}>".encode()]) == f"<{MARK}>".encode()


@given(
    st.lists(st.sampled_from([SECRET, SECRET[:9], SECRET[9:], "s", "sk", " ", "é", OTHER[:-1]])),
    st.data(),
)
def test_no_split_lets_a_secret_through(parts, data):
    body = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    cleaned = clean(Redactor([SECRET]), pieces)

    assert cleaned == body.replace(SECRET.encode(), MARK.encode())


def test_bytes_pass_untouched_without_a_secret():
    data = b"anything at all"

    assert Redactor([""]).chunk(data) is data


def test_short_placeholder_key_changes_no_stream():
    assert clean(Redactor(["none"]), [b"none of the nonesuch"]) == b"none of the nonesuch"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bad key none given", f"bad key {MARK} given"),
        ("nonesuch", "nonesuch"),
    ],
)
def test_short_key_is_redacted_as_a_whole_word(text, expected):
    assert Redactor(["none"]).text(text) == expected


LOOKS_LIKE_THE_KEY = [
    f"Incorrect API key provided: {SECRET}.",
    f"Incorrect API key provided: {SECRET[:8]}****cdef.",
    f"key {SECRET[:8]}xyz is unknown",
    "key sk-c********cdef is unknown",
    "key sk-…cdef is unknown",
    "key sk-...cdef is unknown",
    f"Authorization: Bearer {SECRET[3:]}",
    "bearer: abcdef123456",
]


def test_text_keeps_nothing_like_the_key(subtests):
    for text in LOOKS_LIKE_THE_KEY:
        with subtests.test(msg=text):
            cleaned = Redactor([SECRET]).text(text)

            assert MARK in cleaned
            parts = (SECRET, SECRET[:8], "cdef.", "…cdef", "123456")
            assert not any(part in cleaned for part in parts)


def test_ordinary_error_text_is_unchanged():
    text = "The model `qwen/qwen3` does not exist. Loading... see https://example.org/sk/docs"

    assert Redactor([SECRET]).text(text) == text


def test_cost_grows_linearly_with_the_text(subtests):
    # A pattern that is quadratic needs minutes for these.
    for part in ["a", "-_", "a*", "sk-.", "Bearer x ", "eyJ-"]:
        text = part * (300_000 // len(part))
        with subtests.test(msg=part):
            assert Redactor([SECRET]).text(text) == text
    assert Redactor([SECRET]).text("sk-" * 100_000) == MARK


def test_redaction_is_idempotent():
    once = Redactor([SECRET]).text(f"Bearer {SECRET} and {SECRET[:8]}zz")

    assert Redactor([SECRET]).text(once) == once


def test_every_member_of_an_error_is_redacted():
    info = ErrorInfo(
        message=f"no {SECRET}",
        code=SECRET,
        param=SECRET,
        upstream={"a": [{SECRET: f"x{SECRET}", "n": 1, "t": True, "z": None}]},
    )

    cleaned = Redactor([SECRET]).error(info)

    assert SECRET not in repr(cleaned)
    assert cleaned.upstream == {"a": [{MARK: f"x{MARK}", "n": 1, "t": True, "z": None}]}


def test_deeply_nested_error_body_is_redacted():
    nested: object = SECRET
    for _ in range(5000):
        nested = [nested]

    assert SECRET not in repr(Redactor([SECRET]).error(ErrorInfo(upstream=nested)).upstream)


def test_held_back_bytes_are_bounded():
    redactor = Redactor([SECRET])
    tracemalloc.start()
    for _ in range(10_000):
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


SECRET_OPTIONS: list[object] = [
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
]


def test_secret_in_an_option_is_redacted(subtests):
    for value in SECRET_OPTIONS:
        with subtests.test(msg=repr(value)):
            redactor = Redactor(credentials_of(Secretive(), "", {"headers": value}))

            pieces = [f"seen {TOKEN[:5]}".encode(), f"{TOKEN[5:]} there".encode()]
            assert clean(redactor, pieces) == f"seen {MARK} there".encode()
            assert TOKEN not in redactor.text(f"refused: {TOKEN}")


# name: (secret options, what in them is no secret)
READABLE = {
    "MCP servers": (
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
    ),
    "tools of the server": (
        [
            {"type": "web_search_20260305", "user_location": {"city": "Frankfurt am Main"}},
            {"type": "mcp", "require_approval": "never", "headers": {"X-Key": TOKEN}},
        ],
        "web_search_20260305 Frankfurt am Main never",
    ),
}


@pytest.mark.parametrize(("value", "words"), READABLE.values(), ids=READABLE)
def test_other_words_of_secret_options_stay_readable(value, words):
    options = {"headers_of_tools": value, "region": "northern"}

    redactor = Redactor(credentials_of(Secretive(), "", options))

    assert clean(redactor, [f"{words} northern {TOKEN}".encode()]) == (
        f"{words} northern {MARK}".encode()
    )
    assert redactor.text(words) == words
