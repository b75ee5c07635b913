"""Encodes an uploaded picture again as a small square. Runs in a child process (`chat.core.isolation`), because
decoders of pictures are C code that reads hostile bytes.

Nothing of the upload remains but the pixels: no metadata, no name, no further frames.
"""

from __future__ import annotations

import copy  # noqa: F401
import io
from collections.abc import Iterator
from typing import BinaryIO

# Pillow imports some of them when a picture needs them. Once the limits apply, no file can be opened.
from PIL import (
    ExifTags,
    GifImagePlugin,  # noqa: F401
    Image,
    ImageColor,  # noqa: F401
    ImageOps,
    ImagePalette,  # noqa: F401
    JpegImagePlugin,  # noqa: F401
    MpoImagePlugin,  # noqa: F401
    PngImagePlugin,  # noqa: F401
    TiffImagePlugin,  # noqa: F401
    WebPImagePlugin,  # noqa: F401
)

from chat.core.isolation.child import Refused

# Pixels: twice the largest place that shows it, for screens of double density.
SIDE = 192
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
# The parent has read the size from the header, and limits it; this is Pillow's own.
MOST_PIXELS = 50_000_000


def encode_square(file: BinaryIO, order: bytes) -> Iterator[bytes]:
    Image.MAX_IMAGE_PIXELS = MOST_PIXELS
    try:
        with Image.open(file, formats=FORMATS) as picture:
            # JPEG is decoded at a fraction of its size where that is enough.
            picture.draft("RGB", (SIDE * 2, SIDE * 2))
            square = ImageOps.fit(_flat(picture), (SIDE, SIDE), Image.Resampling.LANCZOS)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        # The parent has the words for people.
        raise Refused("unreadable") from None
    body = io.BytesIO()
    square.save(body, "WEBP", quality=82, method=4)
    yield body.getvalue()


def _flat(picture: Image.Image) -> Image.Image:
    """A smaller picture in RGB, as the camera was held. What is transparent becomes white: initials are below the
    picture."""
    orientation = picture.getexif().get(ExifTags.Base.Orientation, 1)
    if picture.mode not in _SCALABLE:
        picture = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    # First of all: each further step would need the memory of the full size again.
    picture.thumbnail((SIDE * 4, SIDE * 4), Image.Resampling.LANCZOS)
    if orientation in _TURNS:
        picture = picture.transpose(_TURNS[orientation])
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    ground = Image.new("RGBA", picture.size, "white")
    ground.alpha_composite(picture.convert("RGBA"))
    return ground.convert("RGB")


# Others have colors that can't be mixed.
_SCALABLE = ("L", "LA", "RGB", "RGBA", "CMYK")
# Exif's orientations but the usual one.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
