"""How the arguments of a tool call read once they are complete."""

import lxml.html
import pytest

from chat import events
from chat.rendering.anatomy import SHOWN_CHARACTERS
from chat.rendering.arguments import TEXTS, arguments_of
from chat.rendering.patches import Answer
from tests.rendering.stories import RUN, numbered

PROGRAM = 'levels = [1, 2]\nfor level in levels:\n    print(f"<b>{level}</b>")\n'


def texts(html: str, path: str) -> list[str]:
    page = lxml.html.fromstring(f"<div>{html}</div>")
    return [element.text_content() for element in page.iterfind(f".//{path}")]


def blocks(arguments: dict[str, object], tool: str = "run") -> list[tuple[str, str]]:
    """The label above each block of code, as far as it has one, and its text."""
    html = str(arguments_of(arguments, tool))
    names = texts(html, "div[@class='card-label argument-name']")
    codes = texts(html, "code")
    return list(zip([""] * (len(codes) - len(names)) + names, codes, strict=True))


def test_a_program_stands_as_it_is_written() -> None:
    assert blocks({"code": PROGRAM}) == [("code", PROGRAM.strip("\n"))]


def test_what_is_of_one_line_stays_json() -> None:
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
def test_a_program_is_coloured_by_what_is_known_of_it(tool: str, name: str, language: str) -> None:
    html = str(arguments_of({name: "a = 1\nb = 2"}, tool))

    assert texts(html, "span[@class='language']") == [language]


def test_many_and_long_texts_do_not_make_a_card_endless() -> None:
    many = {f"text{number}": "one\ntwo" for number in range(3 * TEXTS)}
    long = {f"text{number}": "one\n" * SHOWN_CHARACTERS for number in range(3)}

    assert len(blocks(many)) == TEXTS + 1
    assert len(str(arguments_of(long, "run"))) < 4 * SHOWN_CHARACTERS


def test_names_and_texts_are_escaped() -> None:
    html = str(arguments_of({"<img src=x>": "<script>\n</script>"}, "<b>"))

    assert not any(texts(html, tag) for tag in ("img", "script", "b"))


def test_a_card_shows_them_so() -> None:
    call = events.ToolCallArguments(item=0, tool="run", arguments={"code": PROGRAM})
    answer = Answer(RUN)
    for event in numbered([events.ToolCallStart(item=0, tool="run"), call]):
        answer.apply(event)

    assert PROGRAM.strip("\n") in texts(answer.snapshot(), "code")
