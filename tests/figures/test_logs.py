"""Lines of the log: readable by machines, and without anybody's words or keys."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import logging.config
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from django.conf import settings
from django.db import DataError, IntegrityError, OperationalError
from django.template import Context, Variable

from project.log_errors import WITHHELD, describe
from project.logs import fields_of
from project.own_secrets import secrets_of

CANARY = "canary-4f6b20e9d1"
SOURCES = [
    path
    for room in ("chat", "project")
    for path in sorted((settings.BASE_DIR / room).rglob("*.py"))
    if "demo" not in path.parts
]
Write = Callable[[logging.LogRecord], str]


def formatter(name: str, **changes: Any) -> logging.Formatter:
    described = {**settings.LOGGING["formatters"][name], **changes}
    return logging.config.DictConfigurator({}).configure_formatter(described)


@pytest.fixture(params=["line", "json"])
def write(request: pytest.FixtureRequest) -> Write:
    return formatter(request.param, with_texts=False).format


def record(message: str, *args: object, name: str = "chat.x", **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.INFO, __file__, 1, message, args, None)
    made.__dict__.update(fields)
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    return dict(json.loads(formatter("json").format(made)))


def raised(error: BaseException) -> logging.LogRecord:
    try:
        raise error
    except BaseException as caught:
        return record(
            "run.broken run=%s", "r", exc_info=(type(caught), caught, caught.__traceback__)
        )


# --- the form ---------------------------------------------------------------------------


def messages() -> Iterator[Any]:
    """Each first argument of a call of a logger in our code."""
    # Every worker of a test run asks for this: what names no logger need not be parsed.
    for path, text in ((path, path.read_text()) for path in SOURCES):
        for node in ast.walk(ast.parse(text)) if "logger" in text else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if getattr(node.func.value, "id", "") != "logger":
                continue
            at = 1 if node.func.attr == "log" else 0
            where = f"{path.relative_to(settings.BASE_DIR)}:{node.lineno}"
            yield pytest.param(node.args[at], id=where)


@pytest.mark.parametrize("argument", list(messages()))
def test_every_message_of_ours_is_a_literal_in_our_form(argument: ast.expr) -> None:
    assert isinstance(argument, ast.Constant)
    assert "%" not in argument.value or fields_of(argument.value) is not None


def test_fields_become_members_with_their_types() -> None:
    told = as_json(record("run.ended run=%s events=%d seconds=%.3f", "abc", 3, 1.25))

    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "info",
        "logger": "chat.x",
        "event": "run.ended",
        "run": "abc",
        "events": 3,
        "seconds": 1.25,
    }


def test_a_message_without_fields_is_an_event() -> None:
    assert as_json(record("shutdown failed"))["event"] == "shutdown failed"


def test_words_of_other_libraries_are_a_message() -> None:
    told = as_json(record("Not Found: %s", "/x/", name="django.request", status_code=404))

    assert (told["event"], told["message"], told["status"]) == ("log", "Not Found: /x/", 404)


def test_a_line_cannot_look_like_two(write: Write) -> None:
    written = write(record("Not Found: %s", "/x\n2026 INFO forged\u2028y\x1b[2J", name="django"))

    assert len(written.splitlines()) == 1
    assert "\x1b" not in written


# --- secrets ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"trib_{CANARY}",
        f"Authorization: Bearer {CANARY}",
        f"headers={{'authorization': 'Basic {CANARY}'}}",
        f'"x-api-key": "{CANARY}"',
        f"Cookie: sessionid={CANARY}; csrftoken={CANARY}",
        f"postgres://user:{CANARY}@db/tributary",
        f"redis://:{CANARY}@cache:6379/0",
        f"GET /x/?a=1&token={CANARY}&b=2",
        f"/invite/{CANARY}/",
    ],
)
def test_what_opens_something_is_hidden(write: Write, text: str) -> None:
    written = write(record("something happened: %s", text, name="other"))

    assert CANARY not in written
    assert "[secret]" in written


@pytest.mark.parametrize("name", ["line", "json"])
@pytest.mark.parametrize("written_as", ["pass word/1", "pass%20word%2F1"])
def test_our_own_passwords_are_hidden_wherever_they_stand(name: str, written_as: str) -> None:
    known = secrets_of("postgres://me:pass%20word%2F1@db/x", "", "short")

    written = formatter(name, secrets=known).format(record("failed error=%s", written_as))

    assert "[secret]" in written
    assert "word" not in written


def test_short_values_and_addresses_without_a_password_are_no_secrets() -> None:
    assert secrets_of("sqlite:////data/tributary.sqlite3", "redis://cache/0", "abc", "") == []


# --- what exceptions say --------------------------------------------------------------------


def _wrong_value() -> object:
    class Kind(msgspec.Struct, tag="known"):
        pass

    return msgspec.json.decode(b'{"type": "%s"}' % CANARY.encode(), type=Kind)


def _template() -> object:
    return Variable("missing.member").resolve(Context({"words": CANARY}))


TELLING_TOO_MUCH: dict[str, Callable[[], object]] = {
    "a number that is none": lambda: int(CANARY),
    "a missing key": lambda: {}[CANARY],
    "a tag of an event": _wrong_value,
    "text that cannot be encoded": lambda: f"{CANARY}\ud800".encode(),
    "an address": lambda: httpx.URL(f"http://x:{CANARY}/"),
    "a variable of a template": _template,
}


@pytest.mark.parametrize("name", TELLING_TOO_MUCH)
def test_texts_that_may_quote_what_was_worked_on_are_withheld(write: Write, name: str) -> None:
    with pytest.raises(Exception) as caught:
        TELLING_TOO_MUCH[name]()

    written = write(raised(caught.value))

    assert CANARY not in written
    assert type(caught.value).__name__ in written
    assert Path(__file__).name in written


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FileNotFoundError(2, "No such file", "/data/x"), "No such file: '/data/x'"),
        (TypeError("unsupported operand"), "unsupported operand"),
        (OperationalError("database is locked"), "database is locked"),
        (IntegrityError(f"null value in column\nDETAIL:  row ({CANARY})"), "null value in column"),
        (DataError(f'invalid input syntax for uuid: "{CANARY}"'), WITHHELD),
        (ValueError(CANARY), WITHHELD),
        (LookupError(), "LookupError"),
    ],
)
def test_texts_that_hold_nothing_are_shown(write: Write, error: Exception, told: str) -> None:
    written = write(raised(error))

    assert told in written.replace('\\"', '"')
    assert CANARY not in written


def test_causes_and_groups_are_shown_by_the_same_rule(write: Write) -> None:
    cause, inner = ValueError(CANARY), OSError("away")
    error = ExceptionGroup(CANARY, [inner, KeyError(CANARY)])
    error.__cause__ = cause
    cause.__context__ = error

    written = write(raised(error))

    assert CANARY not in written
    for name in ("ValueError", "ExceptionGroup", "OSError: away", "KeyError"):
        assert name in written


def test_when_debugging_everything_is_shown() -> None:
    assert CANARY in describe(ValueError(CANARY), with_texts=True)


def test_what_twisted_shows_of_a_failure_is_left_out(write: Write) -> None:
    words = f"Unhandled Error\nTraceback (most recent call last):\nValueError: {CANARY}"

    written = write(record("%s", words, name="twisted"))

    assert "Unhandled Error" in written
    assert CANARY not in written


def test_what_asyncio_shows_of_a_task_is_left_out(write: Write) -> None:
    async def broken() -> None:
        raise ValueError(CANARY)

    async def main() -> list[logging.LogRecord]:
        found: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = found.append  # type: ignore[method-assign]
        logger = logging.getLogger("asyncio")
        logger.addHandler(handler)
        task = asyncio.ensure_future(broken())
        await asyncio.wait({task})
        del task
        await asyncio.sleep(0)
        logger.removeHandler(handler)
        return found

    records = asyncio.run(main())

    assert records
    for one in records:
        assert CANARY in one.getMessage()
        assert CANARY not in write(one)
        assert "never retrieved" in write(one)


def test_a_row_that_postgresql_refuses_is_not_repeated(write: Write) -> None:
    try:
        database = psycopg.connect("postgresql://postgres@127.0.0.1:5432/postgres")
    except psycopg.OperationalError:
        pytest.skip("no PostgreSQL on 127.0.0.1:5432")
    with database, database.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE words (id int PRIMARY KEY, text text NOT NULL, x int NOT NULL)"
        )
        with pytest.raises(psycopg.Error) as caught:
            cursor.execute("INSERT INTO words (id, text) VALUES (1, %s)", [CANARY])
    error = IntegrityError(*caught.value.args)
    error.__cause__ = caught.value

    assert CANARY in str(error)
    written = write(raised(error))
    assert CANARY not in written
    assert "violates not-null constraint" in written
