"""The arguments of a tool call, shown once they are complete."""

import lxml.html
import pytest

from chat import events
from chat.rendering.components import SHOWN_CHARACTERS
from chat.rendering.tool_calls import TEXTS, arguments_of
from tests.rendering.stories import answer_of

PROGRAM = 'levels = [1, 2]\nfor level in levels:\n    print(f"<b>{level}</b>")\n'


def texts(html: str, path: str) -> list[str]:
    page = lxml.html.fromstring(f"<div>{html}</div>")
    return [element.text_content() for element in page.iterfind(f".//{path}")]


def blocks(arguments: dict[str, object], tool: str = "run") -> list[tuple[str, str]]:
    """Label and text of each block of code; the first may have no label."""
    html = str(arguments_of(arguments, tool))
    labels = texts(html, "div[@class='card-label argument-name']")
    codes = texts(html, "code")
    return list(zip([""] * (len(codes) - len(labels)) + labels, codes, strict=True))


def test_program_is_shown_as_code() -> None:
    assert blocks({"code": PROGRAM}) == [("code", PROGRAM.strip("\n"))]


def test_values_of_one_line_stay_json() -> None:
    arguments = {"code": PROGRAM, "timeout": 3, "name": "levels", "end": "one line\n"}

    (_, rest), program = blocks(arguments)

    assert rest == '{\n  "timeout": 3,\n  "name": "levels",\n  "end": "one line\\n"\n}'
    assert program == ("code", PROGRAM.strip("\n"))


def test_no_arguments_are_an_empty_object() -> None:
    assert blocks({}) == [("", "{}")]


@pytest.mark.parametrize(
    ("tool", "name", "language"),
    [
        ("code_interpreter", "input", "python"),
        ("run_python", "code", "python"),
        ("shell", "command", "bash"),
        ("store", "sql", "sql"),
        ("write", "content", ""),
    ],
)
def test_language_follows_from_the_names(tool: str, name: str, language: str) -> None:
    html = str(arguments_of({name: "a = 1\nb = 2"}, tool))

    assert texts(html, "span[@class='language']") == [language]


def test_many_and_long_texts_are_cut() -> None:
    many = {f"text{number}": "one\ntwo" for number in range(3 * TEXTS)}
    long = {f"text{number}": "one\n" * SHOWN_CHARACTERS for number in range(3)}

    assert len(blocks(many)) == TEXTS + 1
    assert len(str(arguments_of(long, "run"))) < 4 * SHOWN_CHARACTERS


def test_names_and_texts_are_escaped() -> None:
    html = str(arguments_of({"<img src=x>": "<script>\n</script>"}, "<b>"))

    assert not any(texts(html, tag) for tag in ("img", "script", "b"))


def test_tool_card_shows_arguments() -> None:
    answer = answer_of(
        events.ToolCallStart(item=0, tool="run"),
        events.ToolCallArguments(item=0, tool="run", arguments={"code": PROGRAM}),
    )

    assert PROGRAM.strip("\n") in texts(answer.snapshot(), "code")
