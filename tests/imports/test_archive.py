"""Files that are damaged, or made to do harm: a clear refusal before anything is unpacked."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable

import pytest

from chat.core.isolation.child import Refused
from chat.imports import archive
from chat.imports.archive import Archive, parse
from chat.imports.conversations import Unreadable
from tests.imports.files import as_json, as_zip, changed_directory, linked
from tests.support.answers import png

CHATS = [{"id": "c1", "mapping": {}}]
ZEROS = b"[" + b" " * 40_000_000 + b"]"


def refusal(file: io.BytesIO) -> str:
    with pytest.raises(Refused) as refused, Archive(file) as opened:
        list(opened.documents())
    return str(refused.value)


def values_in(body: bytes) -> list[object]:
    with Archive(io.BytesIO(body)) as opened:
        (document,) = opened.documents()
        return [parse(item) for item in opened.conversations(document)]


def raw(body: bytes) -> io.BytesIO:
    return io.BytesIO(body)


def many_members() -> io.BytesIO:
    return as_zip({f"{number}.txt": b"" for number in range(30)} | {"conversations.json": CHATS})


def overlapping() -> io.BytesIO:
    """Three entries of the directory that all point to the same bytes."""
    file = as_zip({"a.json": b"[1]" * 3000, "b.json": b"[1]" * 3000, "c.json": b"[1]" * 3000})
    size = struct.pack("<I", 40_000)
    for entry in range(3):
        file = changed_directory(file, 20, size, entry=entry)
    return file


def in_directory(offset: int, value: bytes) -> Callable[[], io.BytesIO]:
    return lambda: changed_directory(as_zip({"conversations.json": CHATS}), offset, value)


# Name, file, and words of the refusal.
HOSTILE: list[tuple[str, Callable[[], io.BytesIO], str]] = [
    ("bomb", lambda: as_zip({"conversations.json": ZEROS}), "too large when extracted"),
    (
        "bomb of many",
        lambda: as_zip({f"{n}.json": b" " * 500_000 for n in range(40)}),
        "too large, as it is or extracted",
    ),
    ("absolute path", lambda: as_zip({"/etc/conversations.json": CHATS}), "absolute path"),
    ("drive", lambda: as_zip({"C:\\conversations.json": CHATS}), "absolute path"),
    ("climbing name", lambda: as_zip({"a/../../conversations.json": CHATS}), "leads out"),
    ("climbing backwards", lambda: as_zip({"..\\conversations.json": CHATS}), "leads out"),
    ("link", linked, "symbolic link or device"),
    ("encrypted", in_directory(8, b"\x01\x00"), "encrypted"),
    ("other compression", in_directory(10, b"\x0e\x00"), "isn’t supported"),
    ("only an archive in it", lambda: as_zip({"in.zip": as_zip({}).getvalue()}), "another archive"),
    ("nothing in it", lambda: as_zip({"a.txt": b"x"}), "no JSON file"),
    ("overlapping members", overlapping, "overlap"),
    ("size that is a lie", in_directory(24, struct.pack("<I", 9)), "damaged"),
    ("cut archive", lambda: raw(many_members().getvalue()[:-40]), "incomplete"),
    ("no archive at all", lambda: raw(b"PK\x03\x04" + b"x" * 300), "incomplete"),
    ("cut JSON", lambda: raw(json.dumps(CHATS).encode()[:-3]), "incomplete"),
    ("cut JSON in an archive", lambda: as_zip({"conversations.json": b'[{"id": "c'}), "incomplete"),
    ("no JSON", lambda: raw(b"<html>"), "a supported export"),
    ("a picture", lambda: raw(png()), "a supported export"),
    ("lines of JSON", lambda: raw(b'{"id": 1}\n{"id": 2}'), "a supported export"),
    ("empty file", lambda: raw(b""), "a supported export"),
    ("deep JSON", lambda: raw(b"[" * 6000 + b"]" * 6000), "nested"),
    ("very deep JSON", lambda: raw(b"[" * 200_000 + b"]" * 200_000), "nested"),
    ("deep and unfinished", lambda: raw(b'[{"a":' * 100_000), "nested"),
    (
        "100,000 conversations",
        lambda: raw(b"[" + b",".join([b"{}"] * 100_000) + b"]"),
        "more than 50,000",
    ),
    ("numbers without end", lambda: raw(b"[" + b"1,7,3," * 30_000), "more than 50,000"),
]


@pytest.mark.parametrize(
    ("file", "words"), [case[1:] for case in HOSTILE], ids=[c[0] for c in HOSTILE]
)
def test_hostile_file_is_refused(file: Callable[[], io.BytesIO], words: str) -> None:
    assert words in refusal(file())


def test_name_that_occurs_twice_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("a.json", "[]")
        with pytest.warns(UserWarning, match="Duplicate"):
            opened.writestr("a.json", "[1]")

    assert "twice" in refusal(file)


def test_limits_of_numbers_and_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    file = many_members()
    monkeypatch.setattr(archive, "MOST_MEMBERS", 30)
    assert "too many" in refusal(file)
    monkeypatch.setattr(archive, "MOST_MEMBERS", 31)
    with Archive(file) as opened:
        assert len(list(opened.documents())) == 1
    monkeypatch.setattr(archive, "DIRECTORY_BYTES", 1000)
    assert "too many" in refusal(file)
    monkeypatch.setattr(archive, "ARCHIVE_BYTES", 100)
    assert "too large" in refusal(file)
    monkeypatch.setattr(archive, "DOCUMENT_BYTES", 10)
    assert "too large" in refusal(io.BytesIO(json.dumps(CHATS).encode()))


def test_unpacked_size_counts_before_unpacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "TOTAL_BYTES", 5000)
    monkeypatch.setattr(Archive, "read", lambda *_: pytest.fail("It was unpacked."))

    assert "too large" in refusal(as_zip({"conversations.json": CHATS, "a.txt": b"x" * 5000}))


def test_conversation_files_are_preferred_and_read_in_order() -> None:
    file = as_zip(
        {
            "user.json": {"email": "a@b.test"},
            "export/conversations-001.json": [{"n": 2}],
            "export/conversations-000.json": [{"n": 1}],
            "chat.html": b"<html>",
        }
    )
    with Archive(file) as opened:
        found = [
            [parse(item) for item in opened.conversations(each)] for each in opened.documents()
        ]

    assert found == [[{"n": 1}], [{"n": 2}]]


def test_member_is_found_by_id_and_by_name() -> None:
    file = as_zip(
        {"conversations.json": CHATS, "dalle/file-AbCd1234-boat.png": png(), "images/b.png": b"x"}
    )
    with Archive(file) as opened:
        assert opened.member("file-AbCd1234") == "dalle/file-AbCd1234-boat.png"
        assert opened.read(opened.member("file-AbCd1234")) == png()
        assert opened.member("/anywhere/b.png") == "images/b.png"
        assert opened.member("file-AbCd12345") == ""
        assert opened.member("../../etc/passwd") == ""


@pytest.mark.parametrize(
    "body",
    [
        b'[{"a": "x"}]',
        b'\xef\xbb\xbf [{"a": "x"}] \n',
        b'{"a": "x"}',
        b'{"version": 1, "conversations": [{"a": "x"}]}',
    ],
)
def test_forms_of_a_json_file(body: bytes) -> None:
    assert values_in(body) == [{"a": "x"}]


def test_loose_json_is_read() -> None:
    body = b'[{"a": "\\ud83d half", "b": "\\ud83d\\ude00"}, {"c": NaN}, {"d": "line\nbreak"}]'
    assert values_in(body) == [
        {"a": "\ufffd half", "b": "😀"},
        {"c": None},
        {"d": "line\nbreak"},
    ]


def test_one_conversation_that_is_damaged_leaves_the_others() -> None:
    with Archive(io.BytesIO(b'[{"a": "\xff\xfe"}, {"b": 1}]')) as opened:
        (document,) = opened.documents()
        damaged, whole = opened.conversations(document)

    with pytest.raises(Unreadable, match="damaged"):
        parse(damaged)
    assert parse(whole) == {"b": 1}


def with_record_64(body: bytes, record_bytes: int | None, end_bytes: int, *, gap: int = 0) -> bytes:
    """The archive with a ZIP64 record that announces a directory of so many bytes, or of the right
    number, and an end record that announces ``end_bytes``. With a gap, only the locator leads to the
    record."""
    end = body.rindex(b"PK\x05\x06")
    count, size, offset = struct.unpack_from("<HII", body, end + 10)
    size = size if record_bytes is None else record_bytes
    record = struct.pack(
        "<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, offset
    )
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    last = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, end_bytes, 0xFFFFFFFF, 0)
    return body[:end] + record + b"\0" * gap + locator + last


def test_archive_with_a_large_directory_record_is_read() -> None:
    """A ZIP64 end of the directory, as some programs always write it."""
    body = as_zip({"conversations.json": CHATS}).getvalue()

    with Archive(io.BytesIO(with_record_64(body, None, 0xFFFFFFFF))) as opened:
        assert len(list(opened.documents())) == 1


@pytest.mark.parametrize(
    ("record", "end", "gap"),
    [(10**9, 50, 0), (10**9, 50, 76), (50, 10**9, 0), (10**9, 0xFFFFFFFF, 0)],
    ids=["record", "record elsewhere", "end", "record alone"],
)
def test_largest_announced_directory_counts(
    record: int, end: int, gap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = as_zip({"conversations.json": CHATS}).getvalue()
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("The directory was read."))

    assert "too many" in refusal(io.BytesIO(with_record_64(body, record, end, gap=gap)))


def test_files_that_the_list_of_files_names_are_missed() -> None:
    listed = {"files": [{"path": "conversations-000.json"}, {"path": "x/conversations-001.json"}]}
    members = {"conversations-000.json": CHATS, "export_manifest.json": listed}

    with Archive(as_zip(members)) as opened:
        assert opened.missing() == ["conversations-001.json"]
    with Archive(as_zip({**members, "export_manifest.json": b"{"})) as opened:
        assert opened.missing() == []


def test_json_file_of_an_archive_is_read_once_more() -> None:
    with Archive(as_json(CHATS)) as opened:
        assert len(list(opened.documents())) == len(list(opened.documents())) == 1
