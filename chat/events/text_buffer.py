"""Text that comes in small pieces and stays in them until somebody asks for the whole."""

# A short str takes some 50 bytes more than its characters: of an answer in words six times as much.
JOINED_PIECES = 32
LONG_PIECE = 1024


def add_piece(pieces: list[str], text: str, *, first: int = 0) -> None:
    """Appends; of ``pieces`` from ``first`` on, many short ones at the end become a long one.

    However long the text grows, each character is copied some thirty times at most, of words a few.
    """
    pieces.append(text)
    if len(pieces) - first >= JOINED_PIECES and len(pieces[-JOINED_PIECES]) < LONG_PIECE:
        pieces[-JOINED_PIECES:] = ["".join(pieces[-JOINED_PIECES:])]
