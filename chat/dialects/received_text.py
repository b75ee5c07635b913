"""The text of one member as it arrives, from servers that send new text or all text so far."""

from chat.events.text_buffer import add_piece

# A server that repeats itself does so in every piece. Shorter texts repeat by chance.
_MOST_CHANCES = 3
_LONG_REPEAT = 16


class ReceivedText:
    """``is_cumulative``: each piece contains all text before it. ``repeats_itself`` is set where that seems
    to be so although it was not said."""

    __slots__ = ("_characters", "_is_cumulative", "_last", "_repeats", "pieces", "repeats_itself")

    def __init__(self, *, is_cumulative: bool = False) -> None:
        self.pieces: list[str] = []
        self.repeats_itself = False
        self._is_cumulative = is_cumulative
        self._characters = 0
        self._last = ""
        self._repeats = 0

    def joined(self) -> str:
        return "".join(self.pieces)

    def is_beginning_of(self, text: str) -> bool:
        """True if ``text`` begins with all that was received. Costs no more than reading ``text``, however
        much was received: servers send a whole text beside every piece of it."""
        return len(text) >= self._characters and text.startswith(self.joined())

    def is_same(self, text: str) -> bool:
        """True if the received text is ``text``, apart from the white space around both."""
        return len(text.strip()) <= self._characters <= 2 * len(text) and (
            self.joined().strip() == text.strip()
        )

    def add(self, text: str) -> str:
        """Returns the new part of a piece: all of it, unless pieces are cumulative."""
        if self._is_cumulative:
            text = self._new_part(text)
        elif text.startswith(self._last) or len(text) == self._characters:
            self._note_repeat(text)
        else:
            self._repeats = 0
        self._last = text
        self._characters += len(text)
        add_piece(self.pieces, text)
        return text

    def rest_of(self, whole: str) -> str:
        """The end of the whole text that was not received yet; empty if it is another text."""
        return whole[self._characters :] if self.is_beginning_of(whole) else ""

    def differs_from(self, whole: str) -> bool:
        """True if the whole text is neither the received one nor the last piece of it."""
        return self.joined().strip() != whole.strip() and self._last != whole

    def _new_part(self, text: str) -> str:
        if self.is_beginning_of(text):
            return text[self._characters :]
        return "" if self._begins_with(text) else text

    def _begins_with(self, text: str) -> bool:
        at = 0
        for piece in self.pieces:
            if at >= len(text):
                break
            if not text.startswith(piece[: len(text) - at], at):
                return False
            at += len(piece)
        return at >= len(text)

    def _note_repeat(self, text: str) -> None:
        if len(text) > len(self._last) and text.startswith(self._last) and self._last:
            self._repeats += 1
        is_whole = len(text) == self._characters > len(self._last) and text == self.joined()
        if len(text) >= _LONG_REPEAT and (self._repeats >= _MOST_CHANCES or is_whole):
            self.repeats_itself = True
