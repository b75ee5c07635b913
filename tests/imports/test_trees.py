"""Random trees survive: every reader makes of a written conversation what was written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.imports.conversations import Call, Conversation, Text, Unreadable
from chat.imports.formats import FORMATS, detect
from chat.imports.tree import MOST_MESSAGES, Node, build
from tests.imports.writers import WRITERS, Said, children_of, expected, role_of
from tests.support.selection import examples

WORDS = st.text("abc \n>&<'\"é漢🙂", min_size=1, max_size=12).map(str.strip).filter(bool)


@st.composite
def trees(draw: st.DrawFn) -> list[Said]:
    tree: list[Said] = []
    for place in range(draw(st.integers(1, 12))):
        parent = draw(st.integers(-1, place - 1))
        tree.append(Said(parent=parent, text=draw(WORDS)))
        if role_of(tree, place) == "assistant":
            reasoning = draw(st.sampled_from(["", "Let me see.\nIt rains."]) | WORDS)
            call = draw(st.sampled_from(["", "Oslo", '<b>"&']))
            tree[place] = Said(parent=parent, text=draw(WORDS), reasoning=reasoning, call=call)
    return tree


def plain(conversation: Conversation) -> list[Any]:
    """Its turns without what not every format has."""
    return [
        msgspec.structs.replace(
            turn,
            parts=tuple(
                msgspec.structs.replace(part, call_id="") if isinstance(part, Call) else part
                for part in turn.parts
            ),
            created_at=None,
        )
        for turn in conversation.turns
    ]


@examples(40)
@given(trees(), st.data())
def test_every_format_reads_what_was_written(tree: list[Said], data: st.DataObject) -> None:
    leaf = data.draw(st.integers(0, len(tree) - 1))

    for name, (format_name, write) in WRITERS.items():
        value = write(tree, leaf)
        found = detect([value])
        assert found is not None
        assert found.name == format_name, name
        conversation = found.read(value, lambda _: "")

        assert plain(conversation) == list(expected(tree).turns), name
        assert conversation.problems == (), name
        if format_name == "librechat":
            assert conversation.leaf == f"m{last_leaf(tree)}"
        else:
            assert conversation.leaf == f"m{leaf}", name


def last_leaf(tree: list[Said]) -> int:
    place = -1
    while below := children_of(tree, place):
        place = below[-1]
    return place


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**14)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "user", "assistant", "text", "m0", "tool", "\x00", "\ud800", "image"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=5,
)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value: its container, and the key or index in it."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], dict | list):
            found += places_in(value[key])
    return found


@examples(100)
@given(trees(), st.sampled_from(sorted(WRITERS)), st.data())
def test_damaged_values_are_read_or_reported(
    tree: list[Said], name: str, data: st.DataObject
) -> None:
    format_name, write = WRITERS[name]
    value = write(tree, len(tree) - 1)
    for _ in range(data.draw(st.integers(1, 4))):
        places = places_in(value)
        container, key = places[data.draw(st.integers(0, len(places) - 1))]
        container[key] = data.draw(JSON_VALUES)

    try:
        conversation = FORMATS[format_name].read(value, lambda _: "")
    except Unreadable:
        return

    # It can be stored, and each turn's parent comes before it.
    msgspec.json.encode(conversation.turns).decode()
    seen = {""}
    for turn in conversation.turns:
        assert turn.parent in seen
        assert "\x00" not in turn.text
        seen.add(turn.source_id)
    assert conversation.leaf in seen


def node(key: str, parent: str = "", *, role: str = "assistant", text: str = "x") -> Node:
    parts = [Text(text)] if text else []
    return Node(source_id=key, parent=parent, role=role, parts=list(parts))  # type: ignore[arg-type]


def test_messages_below_a_hidden_one_move_up() -> None:
    tree = build(
        [node("a", role="user"), node("system", "a", text=""), node("b", "system", text="Answer")]
    )

    assert [(turn.source_id, turn.parent) for turn in tree.turns] == [("a", ""), ("b", "a")]


def test_answer_ends_where_it_forks() -> None:
    tree = build(
        [node("q", role="user"), node("a", "q"), node("b", "a"), node("c", "a"), node("d", "c")]
    )

    assert [(turn.source_id, turn.parent, len(turn.parts)) for turn in tree.turns] == [
        ("q", "", 1),
        ("a", "q", 1),
        ("b", "a", 1),
        ("c", "a", 2),
    ]


def test_failed_answer_is_not_continued() -> None:
    failed = node("a", "q")
    failed.error = "Overloaded"

    tree = build([node("q", role="user"), failed, node("b", "a")])

    assert [(turn.source_id, turn.error) for turn in tree.turns] == [
        ("q", ""),
        ("a", "Overloaded"),
        ("b", ""),
    ]


def test_circle_is_cut_and_reported() -> None:
    tree = build([node("a", "b", role="user"), node("b", "a")])

    assert [(turn.source_id, turn.parent) for turn in tree.turns] == [("a", ""), ("b", "a")]
    assert len(tree.problems) == 1


def test_too_many_messages_are_refused() -> None:
    with pytest.raises(Unreadable):
        build(node(str(number)) for number in range(MOST_MESSAGES + 1))
