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

from project.keys import secrets_of
from project.logs import WITHHELD, describe, fields_of
from tests.support.servers import PostgreSQL

CANARY = "canary-4f6b20e9d1"
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
            "run.failed_unexpectedly run=%s",
            "r",
            exc_info=(type(caught), caught, caught.__traceback__),
        )


# --- the form ---------------------------------------------------------------------------


def messages() -> Iterator[tuple[str, ast.expr]]:
    """Each message that our code gives to a logger, and where it stands."""
    for folder in ("chat", "project"):
        for path in sorted((settings.BASE_DIR / folder).rglob("*.py")):
            text = path.read_text()
            if "demo" in path.parts or "logger" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                    continue
                if getattr(node.func.value, "id", "") == "logger":
                    place = 1 if node.func.attr == "log" else 0
                    where = f"{path.relative_to(settings.BASE_DIR)}:{node.lineno}"
                    yield where, node.args[place]


def test_every_message_of_ours_has_the_same_form(subtests: pytest.Subtests) -> None:
    found = list(messages())
    assert len(found) > 50

    for where, message in found:
        with subtests.test(msg=where):
            assert isinstance(message, ast.Constant)
            assert "%" not in message.value or fields_of(message.value) is not None


def test_fields_become_typed_members() -> None:
    written = as_json(record("run.ended run=%s events=%d seconds=%.3f", "abc", 3, 1.25))

    assert written.pop("time").endswith("Z")
    assert written == {
        "level": "info",
        "logger": "chat.x",
        "event": "run.ended",
        "run": "abc",
        "events": 3,
        "seconds": 1.25,
    }


def test_message_without_fields_is_an_event() -> None:
    assert as_json(record("shutdown failed"))["event"] == "shutdown failed"


def test_message_of_another_library_is_kept() -> None:
    written = as_json(record("Not Found: %s", "/x/", name="django.request", status_code=404))

    assert (written["event"], written["message"], written["status"]) == (
        "log",
        "Not Found: /x/",
        404,
    )


def test_line_breaks_are_escaped(write: Write) -> None:
    written = write(record("Not Found: %s", "/x\n2026 INFO forged\u2028y\x1b[2J", name="django"))

    assert len(written.splitlines()) == 1
    assert "\x1b" not in written


# --- secrets ------------------------------------------------------------------------------


WITH_SECRET = [
    f"trib_{CANARY}",
    f"Authorization: Bearer {CANARY}",
    f"headers={{'authorization': 'Basic {CANARY}'}}",
    f'"x-api-key": "{CANARY}"',
    f"Cookie: sessionid={CANARY}; csrftoken={CANARY}",
    f"postgres://user:{CANARY}@db/tributary",
    f"redis://:{CANARY}@cache:6379/0",
    f"GET /x/?a=1&token={CANARY}&b=2",
    f"/invite/{CANARY}/",
]


def test_credential_is_hidden(write: Write, subtests: pytest.Subtests) -> None:
    for text in WITH_SECRET:
        with subtests.test(msg=text):
            written = write(record("something happened: %s", text, name="other"))

            assert CANARY not in written
            assert "[secret]" in written


@pytest.mark.parametrize("name", ["line", "json"])
@pytest.mark.parametrize("written_as", ["pass word/1", "pass%20word%2F1"])
def test_own_passwords_are_hidden_everywhere(name: str, written_as: str) -> None:
    known = secrets_of("postgres://me:pass%20word%2F1@db/x", "", "short")

    written = formatter(name, secrets=known).format(record("failed error=%s", written_as))

    assert "[secret]" in written
    assert "word" not in written


def test_short_values_and_plain_addresses_are_no_secrets() -> None:
    assert secrets_of("sqlite:////data/tributary.sqlite3", "redis://cache/0", "abc", "") == []


# --- what exceptions say --------------------------------------------------------------------


def _wrong_value() -> object:
    class Kind(msgspec.Struct, tag="known"):
        pass

    return msgspec.json.decode(b'{"type": "%s"}' % CANARY.encode(), type=Kind)


def _template() -> object:
    return Variable("missing.member").resolve(Context({"words": CANARY}))


QUOTING_DATA: dict[str, Callable[[], object]] = {
    "a number that is none": lambda: int(CANARY),
    "a missing key": lambda: {}[CANARY],
    "a tag of an event": _wrong_value,
    "text that cannot be encoded": lambda: f"{CANARY}\ud800".encode(),
    "an address": lambda: httpx.URL(f"http://x:{CANARY}/"),
    "a variable of a template": _template,
}


def test_text_that_may_quote_data_is_withheld(write: Write, subtests: pytest.Subtests) -> None:
    for name, fail in QUOTING_DATA.items():
        with subtests.test(msg=name):
            with pytest.raises(Exception) as caught:
                fail()

            written = write(raised(caught.value))

            assert CANARY not in written
            assert type(caught.value).__name__ in written
            assert Path(__file__).name in written


# (error, what is logged of it)
HARMLESS = [
    (FileNotFoundError(2, "No such file", "/data/x"), "No such file: '/data/x'"),
    (TypeError("unsupported operand"), "unsupported operand"),
    (OperationalError("database is locked"), "database is locked"),
    (IntegrityError(f"null value in column\nDETAIL:  row ({CANARY})"), "null value in column"),
    (DataError(f'invalid input syntax for uuid: "{CANARY}"'), WITHHELD),
    (ValueError(CANARY), WITHHELD),
    (LookupError(), "LookupError"),
]


def test_harmless_text_is_shown(write: Write, subtests: pytest.Subtests) -> None:
    for error, shown in HARMLESS:
        with subtests.test(msg=repr(error)):
            written = write(raised(error))

            assert shown in written.replace('\\"', '"')
            assert CANARY not in written


def test_causes_and_groups_follow_the_same_rule(write: Write) -> None:
    cause, inner = ValueError(CANARY), OSError("away")
    error = ExceptionGroup(CANARY, [inner, KeyError(CANARY)])
    error.__cause__ = cause
    cause.__context__ = error

    written = write(raised(error))

    assert CANARY not in written
    for name in ("ValueError", "ExceptionGroup", "OSError: away", "KeyError"):
        assert name in written


def test_debugging_shows_everything() -> None:
    assert CANARY in describe(ValueError(CANARY), with_texts=True)


def test_failure_texts_of_twisted_are_left_out(write: Write) -> None:
    words = f"Unhandled Error\nTraceback (most recent call last):\nValueError: {CANARY}"

    written = write(record("%s", words, name="twisted"))

    assert "Unhandled Error" in written
    assert CANARY not in written


def test_task_errors_of_asyncio_are_left_out(write: Write) -> None:
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


def test_row_that_postgresql_refuses_is_not_logged(
    write: Write, postgres_server: PostgreSQL
) -> None:
    with (
        psycopg.connect(postgres_server.url("postgres")) as database,
        database.cursor() as cursor,
    ):
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
