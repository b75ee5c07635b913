"""The decision about a call: every cell of rule × readers × annotation × choice × right."""

from __future__ import annotations

from itertools import product

import pytest

from chat.models import ToolRule
from chat.tools.rules import Situation, Verdict, decide

ANNOTATIONS = ("read_only", "plain", "destructive")
CHOICES: tuple[bool | None, ...] = (None, True, False)
LETTERS = {"R": Verdict.RUN, "?": Verdict.ASK, "-": Verdict.REFUSE}

# R runs, ? asks, - is refused. In each group: nothing chosen, "always", "never" in this conversation.
# Annotation:                        read-only  plain  destructive
WHERE_THE_PERSON_MAY_WRITE = {
    (ToolRule.OFF, "alone"): "          - - -   - - -   - - -",
    (ToolRule.OFF, "others"): "         - - -   - - -   - - -",
    (ToolRule.ASK, "alone"): "          ? R -   ? R -   ? ? -",
    (ToolRule.ASK, "others"): "         ? R -   ? R -   ? ? -",
    (ToolRule.AUTO_PRIVATE, "alone"): " R R -   R R -   R R -",
    (ToolRule.AUTO_PRIVATE, "others"): "? R -   ? R -   ? ? -",
    (ToolRule.AUTO, "alone"): "         R R -   R R -   R R -",
    (ToolRule.AUTO, "others"): "        R R -   R R -   R R -",
}
# Who may not write any more lets nothing run; a colleague may still approve it.
WHERE_IT_MAY_NOT = {
    (rule, readers): "- - -   - - -   - - -" if rule == ToolRule.OFF else "? ? -   ? ? -   ? ? -"
    for rule, readers in WHERE_THE_PERSON_MAY_WRITE
}


@pytest.mark.parametrize(
    ("table", "is_entitled"),
    [(WHERE_THE_PERSON_MAY_WRITE, True), (WHERE_IT_MAY_NOT, False)],
    ids=["may write", "may not write"],
)
def test_every_cell(
    table: dict[tuple[ToolRule, str], str], is_entitled: bool, subtests: pytest.Subtests
) -> None:
    for (rule, readers), row in table.items():
        for (annotation, choice), letter in zip(
            product(ANNOTATIONS, CHOICES), row.split(), strict=True
        ):
            with subtests.test(rule=rule, readers=readers, annotation=annotation, choice=choice):
                verdict = decide(
                    Situation(
                        rule=rule,
                        is_private=readers == "alone",
                        is_entitled=is_entitled,
                        is_read_only=annotation == "read_only",
                        is_destructive=annotation == "destructive",
                        choice=choice,
                    )
                )

                assert verdict == LETTERS[letter]


def test_table_has_every_rule_and_audience() -> None:
    assert set(WHERE_THE_PERSON_MAY_WRITE) == set(product(ToolRule, ("alone", "others")))
