"""Pictures are recognized by their bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.core.pictures import PictureFacts, read_picture
from chat.web.files import file_name
from tests.support.answers import PAGE, PICTURES, announced_png

NO_PICTURES = [
    b"",
    PAGE,
    b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    b"GIF89a",
    b"\x89PNG\r\n\x1a\n" + PAGE,
    b"RIFF\x00\x00\x00\x00WEBP" + PAGE,
    b"\xff\xd8\xff" + PAGE,
    b"%PDF-1.7",
    b"BM" + bytes(60),
]
NAMES = {
    "../../etc/passwd.png": "passwd.png",
    "C:\\pictures\\a.png": "a.png",
    "a\u202egnp.exe": "agnp.exe",
    "\x00\n": "picture",
    "...": "picture",
    "x" * 300 + ".png": "x" * 116 + ".png",
}


def test_pictures_are_recognized_with_their_size(subtests: pytest.Subtests) -> None:
    for body, media_type, (width, height) in PICTURES:
        with subtests.test(media_type, width=width):
            facts = read_picture(body)

            assert facts == PictureFacts(media_type=media_type, width=width, height=height)
            assert facts.is_sane


def test_other_bytes_are_no_picture(subtests: pytest.Subtests) -> None:
    for body in NO_PICTURES:
        with subtests.test(repr(body)):
            assert read_picture(body) is None


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (2**31, 1), (1, 30_001)])
def test_impossible_sizes_are_not_sane(size: tuple[int, int]) -> None:
    facts = read_picture(announced_png(*size))

    assert facts is not None
    assert not facts.is_sane


@given(st.binary(max_size=200), st.sampled_from([b"", b"\xff\xd8\xff", b"GIF89a", b"RIFF1234WEBP"]))
def test_any_bytes_can_be_read(body: bytes, head: bytes) -> None:
    facts = read_picture(head + body)

    assert facts is None or facts.media_type.startswith("image/")


def test_segments_without_a_length_end_the_reading() -> None:
    assert read_picture(b"\xff\xd8" + b"\xff\xe1\x00\x00" * 1000) is None


def test_names_are_one_line_without_folders(subtests: pytest.Subtests) -> None:
    for name, shown in NAMES.items():
        with subtests.test(ascii(name)):
            assert file_name(name) == shown
