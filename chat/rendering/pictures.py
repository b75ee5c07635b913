"""Pictures that are inside an event: shown where they stand, if they are what they say."""

import re

# Pictures travel inside the page; a larger one is named, not shown.
PICTURE_CHARACTERS = 4 * 1024 * 1024
PICTURE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")

_ADDRESS = re.compile(r"data:(image/[a-z]+);base64,")


def is_picture(media_type: str, data: str) -> bool:
    """Whether ``data``, base64, may be shown as a picture of this type."""
    is_small = 0 < len(data) <= PICTURE_CHARACTERS
    return media_type in PICTURE_TYPES and is_small and _is_base64(data)


def _is_base64(data: str) -> bool:
    return data.isascii() and data.replace("+", "").replace("/", "").rstrip("=").isalnum()


def picture_of(media_type: str, data: str) -> str:
    """The picture as HTML; empty where it is none."""
    if not is_picture(media_type, data):
        return ""
    return (
        f'<img class="picture" src="data:{media_type};base64,{data}" alt="Picture in the result">'
    )


def picture_of_address(address: str) -> str:
    """The same of a ``data:`` address."""
    match = _ADDRESS.match(address)
    return picture_of(match.group(1), address[match.end() :]) if match else ""
