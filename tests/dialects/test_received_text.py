"""Text that comes in pieces, each new or with all before it."""

from hypothesis import given
from hypothesis import strategies as st

from chat.dialects.received_text import ReceivedText

PIECES = st.lists(st.text("ab ", min_size=1, max_size=5), max_size=12)


@given(pieces=PIECES)
def test_cumulative_pieces_give_each_character_once(pieces: list[str]) -> None:
    text = ReceivedText(is_cumulative=True)

    new = [text.add("".join(pieces[: count + 1])) for count in range(len(pieces))]

    assert "".join(new) == text.joined() == "".join(pieces)


@given(pieces=PIECES, other=st.text("ab ", max_size=40))
def test_questions_about_the_received_text(pieces: list[str], other: str) -> None:
    text, whole = ReceivedText(), "".join(pieces)
    for piece in pieces:
        text.add(piece)

    for asked in (other, whole, whole + other, f" {whole} ", whole[: len(whole) // 2]):
        assert text.is_beginning_of(asked) == asked.startswith(whole)
        assert text._begins_with(asked) == whole.startswith(asked)
        assert text.rest_of(asked) == (asked[len(whole) :] if asked.startswith(whole) else "")
        if text.is_same(asked):
            assert asked.strip() == whole.strip()
    assert text.is_same(whole)
