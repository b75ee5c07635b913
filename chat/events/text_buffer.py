"""Text that arrives in small pieces, which are joined only when the whole is needed."""

# A short str takes about 50 bytes more than its characters: six times as much, for an answer in
# words.
JOINED_PIECES = 32
LONG_PIECE = 1024


def add_piece(pieces: list[str], text: str, *, first: int = 0) -> None:
    """Appends a piece, and joins many short ones at the end of ``pieces``, from ``first`` on.
    However long the text grows, each character is copied about thirty times at most."""
    pieces.append(text)
    if len(pieces) - first >= JOINED_PIECES and len(pieces[-JOINED_PIECES]) < LONG_PIECE:
        pieces[-JOINED_PIECES:] = ["".join(pieces[-JOINED_PIECES:])]
