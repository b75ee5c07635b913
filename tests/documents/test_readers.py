"""The text that is read of files of every kind, and the refusals of hostile ones."""

from __future__ import annotations

import io
import platform
import resource
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chat.core.isolation import parent
from chat.core.isolation.child import Refused
from chat.core.isolation.parent import ChildKilled, read_in_child
from chat.documents import reading
from chat.documents.kinds import ACCEPTED, media_type_of
from chat.documents.readers import refusals
from chat.documents.readers.form import Order, Page
from chat.documents.readers.reader import read_document
from chat.models import DocumentKind
from tests.core.test_isolation import children_of
from tests.documents.cases import CASES, ENDS, MAILS, OFFICE, PDFS, SHEETS, TEXTS, Case

ROOT = Path(__file__).parents[2]
MEGABYTE = 1024 * 1024
PAGES, CHARACTERS = 20, 100_000
PATIENCE_SECONDS = 120
_decode = msgspec.json.Decoder(Page).decode
HAS_FILTER = "2" if platform.machine() in ("x86_64", "aarch64") else "0"
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's limits")


def kind_of(name: str, body: bytes) -> DocumentKind | None:
    return DocumentKind.of_media_type(media_type_of(name, body))


def order_for(each: Case, body: bytes) -> bytes:
    kind = kind_of(each.name, body)
    assert kind is not None, each.name
    order = Order(
        kind=kind, most_pages=PAGES, most_characters=CHARACTERS, most_unpacked_bytes=32 * MEGABYTE
    )
    return msgspec.json.encode(order)


def read_here(each: Case, body: bytes) -> list[Page] | str:
    """The pages, or the refusal, from a reader in this process."""
    try:
        return [_decode(frame) for frame in read_document(io.BytesIO(body), order_for(each, body))]
    except Refused as refusal:
        return str(refusal)


def read_there(each: Case, body: bytes, **changes: float) -> list[Page] | str:
    """The same from a child process."""
    limits = replace(reading.limits(), **changes)  # type: ignore[arg-type]
    frames = read_in_child(reading.READER, io.BytesIO(body), order_for(each, body), limits=limits)
    try:
        return [_decode(frame) for frame in frames]
    except Refused as refusal:
        return str(refusal)
    except ChildKilled as killed:
        return reading.KILLED[killed.reason]


def expected(each: Case) -> list[Page] | str:
    names = each.names or [""] * len(each.pages)
    pages = [Page(name=name, text=text) for name, text in zip(names, each.pages, strict=True)]
    return each.refusal or pages


def differences(cases: Iterable[Case], found: Iterable[list[Page] | str]) -> dict[str, object]:
    return {each.name: got for each, got in zip(cases, found, strict=True) if got != expected(each)}


def test_files_of_every_kind_are_read_or_refused() -> None:
    assert len(CASES) + len(ENDS) >= 60

    found = [read_here(each, each.make()) for each in CASES]

    assert differences(CASES, found) == {}


def test_each_kind_is_read_in_a_process_with_limits() -> None:
    """Nothing that a library needs is loaded after the process has given up opening files."""
    some = [PDFS[3], PDFS[4], OFFICE[0], OFFICE[11], SHEETS[0], SHEETS[3], TEXTS[4], TEXTS[17]]
    some += [MAILS[0], MAILS[3]]
    assert {kind_of(each.name, each.make()) for each in some} == set(DocumentKind)

    assert differences(some, [read_there(each, each.make()) for each in some]) == {}


@linux
def test_process_has_the_limits_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, settings: Any, subtests: pytest.Subtests
) -> None:
    settings.DOCUMENT_MEMORY_BYTES, settings.DOCUMENT_SECONDS = 300 * MEGABYTE, 7
    monkeypatch.setattr(parent, "CHECK_SECONDS", 0.0)
    monkeypatch.setenv("SECRET_KEY", "not for readers")
    started = children_of(monkeypatch)
    wanted = {
        resource.RLIMIT_AS: (300 * MEGABYTE, 300 * MEGABYTE),
        resource.RLIMIT_CPU: (7, 12),
        resource.RLIMIT_NOFILE: (3, 3),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    for each in (PDFS[3], OFFICE[0], OFFICE[11], SHEETS[0], TEXTS[4], TEXTS[17], MAILS[0]):
        body, seen = each.make(), []
        with subtests.test(each.name):

            def look(seen: list[tuple[object, ...]] = seen) -> None:
                pid = started[-1].pid
                found = {kind: resource.prlimit(pid, kind) for kind in wanted}
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                seen.append((found, environment, filter_of(pid)))

            limits, order = reading.limits(), order_for(each, body)
            frames = read_in_child(
                reading.READER, io.BytesIO(body), order, limits=limits, check=look
            )
            assert [_decode(frame) for frame in frames] == expected(each)

            # It gives up everything before it gives the first page.
            assert (wanted, b"", HAS_FILTER) in seen
            assert {environment for _, environment, _ in seen} == {b""}


def filter_of(pid: int) -> str:
    """The mode of seccomp: 2 is a filter (proc_pid_status(5))."""
    [line] = [
        each
        for each in Path(f"/proc/{pid}/status").read_text().splitlines()
        if each.startswith("Seccomp:")
    ]
    return line.split()[1]


# These take seconds of the processor, which is what they want.
GREEDY = ("entities.docx", "deep.docx", "deep.html")


@linux
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each.name, marks=[pytest.mark.slow] if each.name in GREEDY else [])
        for each in ENDS
    ],
)
def test_hostile_file_ends_in_a_sentence(name: str) -> None:
    each = next(each for each in ENDS if each.name == name)
    body = each.make()
    before = forget_peak()

    found = read_there(
        each, body, cpu_seconds=2, memory_bytes=128 * MEGABYTE, wait_seconds=PATIENCE_SECONDS
    )

    assert found == expected(each)
    # Pages and a piece of the file at a time are all that this process holds.
    assert memory("VmHWM") - before < 16 * MEGABYTE


def forget_peak() -> int:
    """The memory of this process, whose peak begins anew (proc_pid_clear_refs(5))."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmHWM")


def memory(name: str) -> int:
    [line] = [each for each in Path("/proc/self/status").read_text().splitlines() if name in each]
    return int(line.split()[1]) * 1024


def test_every_sentence_of_a_reader_is_known() -> None:
    said = {each.refusal for each in (*CASES, *ENDS) if each.refusal}

    assert said - refusals.KNOWN == set(reading.KILLED.values()) - {refusals.TOO_LONG}
    assert said >= refusals.KNOWN


@pytest.mark.slow
@pytest.mark.parametrize("kind", DocumentKind.values)
def test_readers_need_no_django(kind: str) -> None:
    code = (
        f"import sys, chat.documents.readers.reader, chat.documents.readers.{kind};"
        "print([m for m in sys.modules if m.split('.')[0] in ('django', 'sqlite3')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("name", "head", "media_type", "kind"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1", "image/png", None),
        ("a.pdf", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1", "image/png", None),
        ("a.docx", b"%PDF-1.7", "application/pdf", "pdf"),
        ("a.exe", b"MZ\0\0", "application/octet-stream", None),
        ("a.zip", b"PK\x03\x04", "application/zip", None),
        ("../../etc/x.csv", b"a,b", "text/csv", "text"),
        ("a.TXT", b"a", "text/plain", "text"),
        ("a.txt", b"ID3 is an algorithm", "text/plain", "text"),
        ("a.py", b'HEAD = b"%PDF-"', "text/plain", "text"),
        ("a.txt", b"%PDF-1.7", "application/pdf", "pdf"),
        ("a.mp3", b"ID3\x04\0", "audio/mpeg", None),
        ("noname", b"plain", "text/plain", "text"),
        ("noname", b"\0\1", "application/octet-stream", None),
        ("a.json", b"{}", "application/json", "text"),
        ("a.htm", b"<p>", "text/html", "html"),
        ("", b"", "text/plain", "text"),
    ],
)
def test_bytes_decide_the_kind(name: str, head: bytes, media_type: str, kind: str | None) -> None:
    assert media_type_of(name, head) == media_type
    assert kind_of(name, head) == kind


def test_accepted_suffixes_have_a_kind() -> None:
    assert [each for each in ACCEPTED if kind_of(f"a{each}", b"text") is None] == []
