"""What is a picture is told by its bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.actions.files import picture_name
from chat.actions.pictures import PictureFacts, read_picture
from tests.files.conftest import (
    GIF,
    JPEG,
    PAGE,
    WEBP_EXTENDED,
    WEBP_LOSSLESS,
    WEBP_LOSSY,
    announced_png,
    png,
)


@pytest.mark.parametrize(
    ("body", "media_type", "size"),
    [
        (png(4, 3), "image/png", (4, 3)),
        (GIF, "image/gif", (5, 6)),
        (JPEG, "image/jpeg", (8, 7)),
        (WEBP_LOSSY, "image/webp", (9, 10)),
        (WEBP_LOSSLESS, "image/webp", (11, 12)),
        (WEBP_EXTENDED, "image/webp", (13, 14)),
    ],
    ids=["png", "gif", "jpeg", "webp lossy", "webp lossless", "webp extended"],
)
def test_pictures_are_known_with_their_size(
    body: bytes, media_type: str, size: tuple[int, int]
) -> None:
    facts = read_picture(body)

    assert facts == PictureFacts(media_type=media_type, width=size[0], height=size[1])
    assert facts.is_sane


@pytest.mark.parametrize(
    "body",
    [
        b"",
        PAGE,
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n" + PAGE,
        b"RIFF\x00\x00\x00\x00WEBP" + PAGE,
        b"\xff\xd8\xff" + PAGE,
        b"%PDF-1.7",
        b"BM" + bytes(60),
    ],
)
def test_everything_else_is_no_picture(body: bytes) -> None:
    assert read_picture(body) is None


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (2**31, 1), (1, 30_001)])
def test_sizes_that_no_picture_has_are_not_sane(size: tuple[int, int]) -> None:
    facts = read_picture(announced_png(*size))

    assert facts is not None
    assert not facts.is_sane


@given(st.binary(max_size=200), st.sampled_from([b"", b"\xff\xd8\xff", b"GIF89a", b"RIFF1234WEBP"]))
def test_no_bytes_are_too_much(body: bytes, head: bytes) -> None:
    facts = read_picture(head + body)

    assert facts is None or facts.media_type.startswith("image/")


def test_segments_that_claim_no_length_are_not_walked_for_ever() -> None:
    assert read_picture(b"\xff\xd8" + b"\xff\xe1\x00\x00" * 1000) is None


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd.png", "passwd.png"),
        ("C:\\pictures\\a.png", "a.png"),
        ("a\u202egnp.exe", "agnp.exe"),
        ("\x00\n", "picture"),
        ("...", "picture"),
        ("x" * 300 + ".png", "x" * 116 + ".png"),
    ],
)
def test_names_are_one_line_without_folders_or_tricks(name: str, shown: str) -> None:
    assert picture_name(name) == shown
