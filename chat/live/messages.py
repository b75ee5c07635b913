"""Messages to a page as JSON text."""

from __future__ import annotations

import msgspec


def _plain(text: object) -> str:
    """Templates return a subclass of ``str``, which the encoder does not know."""
    if isinstance(text, str):
        return text + ""
    raise TypeError(type(text).__name__)


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode(message: object) -> str:
    """A message to a page, or a part of one."""
    return _encoder.encode(message).decode()
