"""Memory of large texts comes back: rendered answers are bounded, and what is freed is returned."""

import platform
import subprocess
import sys

import pytest
from django.utils.safestring import SafeString

from chat.live.snapshot import RenderedAnswer, _Cache

# Small things that stay above large ones that go: without a limit they would hold all of them.
PROGRAM = """
import gc, sys
from project.startup import configure_malloc

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

configure_malloc()
del (once := [bytes(16_000_000)])[:]
before = resident()
large, small = [], []
for _ in range(40):
    large.append(bytearray(b"x") * 4_000_000)
    small.append(bytearray(b"x") * 100_000)
grown = resident() - before
large.clear()
gc.collect()
print(grown, resident() - before)
"""

# As asyncio reads: with a buffer of 256 KiB, of which what has arrived is kept.
READS = """
import socket
from project.startup import configure_malloc

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

configure_malloc()
here, there = socket.socketpair()
kept, before = [], resident()
for _ in range(5_000):
    there.send(bytes(300))
    kept.append(here.recv(256 * 1024))
print(resident() - before)
"""


def rendered(html: str) -> RenderedAnswer:
    return RenderedAnswer(
        run_id="",
        html=SafeString(html),
        phase_html=SafeString(""),
        seq=1,
        check="",
        state="completed",
        is_live=False,
        has_words=True,
    )


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="ANOTHER C LIBRARY: not glibc")
def test_large_memory_is_given_back_when_it_is_freed() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    grown, left = map(int, done.stdout.split())

    assert grown > 150e6
    assert left < 20e6


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="ANOTHER C LIBRARY: not glibc")
def test_short_read_keeps_no_page_of_memory() -> None:
    done = subprocess.run([sys.executable, "-c", READS], capture_output=True, check=True)

    assert int(done.stdout) < 5_000 * 1_000


def test_kept_answers_are_bounded_in_bytes() -> None:
    cache = _Cache(1_000_000)
    # Two bytes for each letter: what counts is memory, not letters.
    answers = {number: rendered("\u0416" * 100_000) for number in range(20)}

    for number, answer in answers.items():
        cache.put((number, 0, None), answer)

    kept = [number for number in answers if cache.get((number, 0, None))]
    assert kept == [16, 17, 18, 19]
