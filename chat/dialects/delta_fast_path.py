"""Deltas that differ in their text alone: read without parsing their JSON again.

Nearly every payload of a long answer is the one before it with another text in it. Once such a
payload has been parsed, the next is known to be like it by its beginning and its end; what stands
between them, if it is one JSON string, is the text.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from chat.wire.sse import Frame

Key = TypeVar("Key")
# Reads one payload, without any other effect: where its text goes, and the text.
Reading = Callable[[Frame], tuple[Key, str] | None]

_string_decoder = msgspec.json.Decoder(str)

# Stands for the text where a form is tried out; a text that no payload holds by chance.
_SAMPLE = "\u2042tributary\u2042"


class RepeatedForm(Generic[Key]):
    """The form of the payload read last, and where its text goes (``key``)."""

    __slots__ = ("_after", "_before", "_event", "_length", "key")

    def __init__(self, event: str | None, before: str, after: str, key: Key) -> None:
        self._event = event
        self._before = before
        self._after = after
        self._length = len(before) + len(after)
        self.key = key

    def text_of(self, frame: Frame) -> str | None:
        """The text of a payload of this form; ``None`` where it has another form."""
        data = frame.data
        if (
            frame.event != self._event
            or not data.startswith(self._before)
            or not data.endswith(self._after)
            or len(data) < self._length
        ):
            return None
        text = data[len(self._before) : len(data) - len(self._after)]
        return text if '"' not in text and "\\" not in text else _unescaped(text)


def _unescaped(literal: str) -> str | None:
    """What stands between the quotes of one JSON string; ``None`` if it is anything else."""
    try:
        return _string_decoder.decode(f'"{literal}"')
    except (msgspec.DecodeError, UnicodeError):
        return None


def form_of(frame: Frame, key: Key, text: str, read: Reading[Key]) -> RepeatedForm[Key] | None:
    """The form of a payload that ``read`` found ``text`` in; ``None`` where the place of the text
    is not certain.

    The place is certain if the text stands there just once, as it is, and another text put into
    that place is what ``read`` then finds.
    """
    literal = f'"{text}"'
    before, found, after = frame.data.partition(literal)
    if not text or not found or literal in after:
        return None
    before, after = f'{before}"', f'"{after}'
    sample = Frame(frame.event, f"{before}{_SAMPLE}{after}")
    return RepeatedForm(frame.event, before, after, key) if read(sample) == (key, _SAMPLE) else None


# A server that puts something new into every payload (a moment, a filling) has no form: after so
# many forms that no payload repeated, none is looked for any more.
MOST_FORMS_IN_VAIN = 8


class Repeated(Generic[Key]):
    """Reads payloads one after the other, those of the form of the last one without parsing."""

    __slots__ = ("_form", "_forms_left")

    def __init__(self) -> None:
        self._form: RepeatedForm[Key] | None = None
        self._forms_left = MOST_FORMS_IN_VAIN

    def again(self, frame: Frame) -> str | None:
        """The text of a payload like the last one; otherwise ``None``, and then there is no last
        one: what comes between two payloads may change what the second one means."""
        if self._form is None:
            return None
        text = self._form.text_of(frame)
        if text is None:
            self._form = None
        else:
            self._forms_left = MOST_FORMS_IN_VAIN
        return text

    def read(self, frame: Frame, read: Reading[Key]) -> tuple[Key, str] | None:
        """What ``read`` finds in a payload that is not like the last one."""
        found = read(frame)
        if found is not None and found[1] and self._forms_left:
            self._forms_left -= 1
            self._form = form_of(frame, found[0], found[1], read)
        return found
