import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A comment or docstring that begins with one of these leaves the reader to find what it is about.
FRAGMENT = (
    r"(?:And|Behind|Beside|But|Elsewhere|Enough|Neither|Nor|Not|Of|Otherwise|So many|So much|Such|"
    r"Than|Then|Those|What|Whether|Which|Who|Whoever|Whom|Whose)\b"
)
DOCSTRING = re.compile(rf'\s*"""{FRAGMENT}')
COMMENT = re.compile(rf"(?:\s*|.*  )# {FRAGMENT}")
# These say nothing without an object, as in `take_events` and `end_job`.
BARE_VERB = re.compile(r"\s*(?:async )?def (?:begin|end|note|say|show|take)\(")


def problems(text: str) -> list[int]:
    found, in_comment = [], False
    for number, line in enumerate(text.splitlines(), 1):
        begins_comment = not in_comment and COMMENT.match(line)
        if begins_comment or DOCSTRING.match(line) or BARE_VERB.match(line):
            found.append(number)
        in_comment = line.lstrip().startswith("#")
    return found


def test_comments_name_their_thing_first_and_methods_have_an_object() -> None:
    files = [path for folder in ("chat", "project") for path in (ROOT / folder).rglob("*.py")]
    names = {path.relative_to(ROOT).as_posix(): path for path in files}

    found = [
        f"{name}:{number}"
        for name, path in sorted(names.items())
        for number in problems(path.read_text())
    ]

    assert not found
