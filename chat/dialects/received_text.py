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
        received = self.joined()
        return whole[len(received) :] if whole.startswith(received) else ""

    def differs_from(self, whole: str) -> bool:
        """Whether the whole text is neither the received one nor the last piece of it."""
        return self.joined().strip() != whole.strip() and self._last != whole

    def _new_part(self, text: str) -> str:
        received = self.joined()
        if text.startswith(received):
            return text[len(received) :]
        return "" if received.startswith(text) else text

    def _note_repeat(self, text: str) -> None:
        if len(text) > len(self._last) and text.startswith(self._last) and self._last:
            self._repeats += 1
        is_whole = len(text) == self._characters > len(self._last) and text == self.joined()
        if len(text) >= _LONG_REPEAT and (self._repeats >= _MOST_CHANCES or is_whole):
            self.repeats_itself = True
