"""Text in small pieces: nothing is lost, little memory is added, and counted places stay."""

import tracemalloc

from chat.events.text_buffer import JOINED_PIECES, LONG_PIECE, add_piece


def test_text_in_words_needs_little_extra_memory() -> None:
    pieces: list[str] = []
    words = [f"word {number} " for number in range(20_000)]
    text = "".join(words)

    tracemalloc.start()
    for word in words:
        add_piece(pieces, "".join(list(word)))
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert "".join(pieces) == text
    assert taken < 1.5 * len(text)


def test_each_character_is_copied_few_times() -> None:
    copied = 0

    class Counted(list[str]):
        def __setitem__(self, where, new):  # type: ignore[no-untyped-def]
            nonlocal copied
            copied += sum(map(len, new))
            super().__setitem__(where, new)

    pieces = Counted()
    for _ in range(50_000):
        add_piece(pieces, "twelve chars")

    assert copied < 4 * 50_000 * len("twelve chars")
    assert len(pieces) < 50_000 * len("twelve chars") / LONG_PIECE + 2 * JOINED_PIECES


def test_counted_pieces_stay_in_their_places() -> None:
    pieces = [str(number) for number in range(40)]

    for number in range(40, 300):
        add_piece(pieces, str(number), first=40)

    assert pieces[:40] == [str(number) for number in range(40)]
    assert "".join(pieces[40:]) == "".join(map(str, range(40, 300)))


def test_long_pieces_are_not_copied() -> None:
    long = ["x" * LONG_PIECE for _ in range(3 * JOINED_PIECES)]
    pieces: list[str] = []
    for piece in long:
        add_piece(pieces, piece)

    assert all(one is other for one, other in zip(pieces, long, strict=True))
