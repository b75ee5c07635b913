"""Style sheets say each thing once, in a layer, and for both directions of writing."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from django.conf import settings

from chat.core.style_bundles import bundles
from tests.look.sheets import STATIC, Rule, own_sheets, rules_of

RULES = [rule for sheet in own_sheets() for rule in rules_of(sheet)]
# Rules of three declarations and more whose declarations another rule has, too: fewer than these.
MOST_REPEATED = 16
LAYERS = "@layer reset, tokens, base, components, features, utilities;"
# Sheets that stand against those of others, which have no layer, or that have none by their nature.
WITHOUT_LAYER = {"base/fonts.css"}

# Width and height are the same in both directions; sides are not.
PHYSICAL = re.compile(
    r"(margin|padding|border|scroll-margin|scroll-padding)-(top|right|bottom|left)\b"
    r"|(top|right|bottom|left):"
    r"|border-(top|bottom)-(left|right)-radius:"
    r"|(text-align|float|clear): (left|right)\b"
)
# Of four values the second and the fourth are the right and the left side.
FOUR_SIDES = re.compile(r"(?:margin|padding|inset|border-width|border-color|border-style): (.+)")


def values(text: str) -> list[str]:
    """The values of a shorthand; what stands in parentheses is one of them."""
    return re.findall(r"(?:[^\s(]|\((?:[^()]|\([^()]*\))*\))+", text)


def is_physical(declaration: str) -> bool:
    if PHYSICAL.match(declaration):
        return True
    sides = FOUR_SIDES.fullmatch(declaration)
    four = values(sides[1]) if sides else []
    return len(four) == 4 and four[1] != four[3]


def test_sides_are_recognised() -> None:
    wrong = ["margin-left: 0", "inset: 0 auto 0 0", "text-align: right", "top: calc(1px + (2px))"]
    right = ["margin: 0 calc(1px + 2px) 0 calc(1px + 2px)", "text-align: end", "border-radius: 1px"]

    assert [is_physical(each) for each in wrong] == [True] * len(wrong)
    assert [is_physical(each) for each in right] == [False] * len(right)


def test_few_rules_repeat_what_another_says() -> None:
    by_declarations: dict[frozenset[str], list[Rule]] = defaultdict(list)
    for rule in RULES:
        if len(rule.declarations) >= 3:
            by_declarations[rule.declarations].append(rule)
    repeated = [str(rule) for same in by_declarations.values() for rule in same[1:]]

    assert len(repeated) < MOST_REPEATED, repeated


def test_no_sheet_names_a_physical_side() -> None:
    physical = [
        f"{rule} {declaration}"
        for rule in RULES
        for declaration in rule.declarations
        if is_physical(declaration)
    ]

    assert physical == []


def test_each_sheet_has_its_layer() -> None:
    outside = {
        rule.sheet
        for rule in RULES
        if not rule.path[0].startswith("@layer ") and rule.sheet not in WITHOUT_LAYER
    }

    # KaTeX's sheet has no layer, so two rules against it have none.
    assert outside == {"rendering/text.css"}
    assert [sheet.name for sheet in own_sheets() if LAYERS in sheet.read_text()] == ["tokens.css"]


def test_every_sheet_is_on_some_page() -> None:
    templates = (Path(settings.BASE_DIR) / "templates").rglob("*.html")
    text = "".join(path.read_text() for path in templates)
    linked = set(re.findall(r"{% static '([^']+\.css)' %}", text))
    used = set(re.findall(r'"(\w+)"', "".join(re.findall(r"{% style_sheets (.*?) %}", text))))

    own = {sheet.relative_to(STATIC).as_posix() for sheet in own_sheets()}
    bundled = {name for sheets in bundles().values() for name in sheets}
    assert bundled | {name for name in linked if not name.startswith("vendor/")} == own
    assert used == set(bundles())


def test_order_of_layers_is_known_before_any_rule() -> None:
    assert bundles()["base"][0] == "base/tokens.css"
