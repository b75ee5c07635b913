"""Variables in the text of a prompt: found, and replaced once."""

from __future__ import annotations

import pytest

from chat.models import VariableKind
from chat.prompts.variables import Variable, fill, names_in, to_stored, variables_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Dear {{customer}}, {{ customer }}!", ["customer"]),
        ("{{a}}{{b}} {{\ta-b c_d }}", ["a", "b", "a-b c_d"]),
        ("{{größe}} {{名前}}", ["größe", "名前"]),
        # Code and other template languages stay text.
        ("{{ user.password }} {{7*7}} {% if x %} ${HOME} {{''.__class__}} {{a|b}} {{_x}} {{}}", []),
        ("{{ {{inner}} }} {{a\nb}} {{" + "x" * 41 + "}}", ["inner"]),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert names_in(text) == names


def test_values_are_not_looked_at_again() -> None:
    values = {"a": "{{b}} {{ x.y }} \\1", "b": "B"}

    assert fill("{{a}} {{b}} {{c}}", values) == "{{b}} {{ x.y }} \\1 B {{c}}"


def test_settings_follow_the_names() -> None:
    choice = Variable(name="tone", kind=VariableKind.CHOICE, choices=("dry", "warm"), default="dry")

    found = variables_of("{{tone}} {{new}}", to_stored([Variable(name="gone"), choice]))

    assert found == [choice, Variable(name="new")]
