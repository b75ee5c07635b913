"""Pages as text: what is kept of them, and hostile ones."""

from __future__ import annotations

import asyncio
import threading

import pytest

from chat.core.isolation.parent import ChildKilled
from chat.documents.readers.html import readable
from chat.tools.web import reader
from chat.tools.web.reader import Unreadable, read_html

PAGE = """<html><head><title>The &amp; Elbe</title><style>x{}</style></head><body>
<nav><a href=/a>Menu</a></nav>
<main><h1>Elbe</h1><p>A long <b>river</b> in
 Europe. <a href='/q?x=1'>More</a> <a href='#x'>below</a> <a href="javascript:alert(1)">not</a></p>
<ul><li>one<li>two</ul><table><tr><td>a<td>b</table><pre>x
  y</pre><script>alert(2)</script><!-- hidden -->
<p>WORDS</p></main><footer>foot</footer></body>""".replace("WORDS", "It rises in the hills. " * 20)


def test_text_of_the_main_part_is_kept() -> None:
    page = readable(PAGE, "https://rivers.example/p/")

    assert page.title == "The & Elbe"
    assert page.text.startswith(
        "# Elbe\n\nA long river in Europe. More (https://rivers.example/q?x=1) below not\n\n"
        "- one\n- two\n\n | a | b".replace("\n | a", "\n| a")
    )
    assert "x\n  y" in page.text
    for left_out in ("Menu", "foot", "alert", "hidden", "x{}", "javascript"):
        assert left_out not in page.text


def test_page_without_a_main_part_is_read_whole() -> None:
    assert (
        readable("<p>One<article>Two</article><p>3", "https://a.example/").text == "One\n\nTwo\n\n3"
    )


@pytest.mark.parametrize(
    "html", ["", "plain < text", "<", "<!--", "<a href='", "&#xD800;&#0;", "<table><p>x"]
)
def test_broken_page_is_read(html: str) -> None:
    assert readable(html, "http://[broken").title == ""


async def test_html_is_read_in_a_process_of_its_own() -> None:
    page = await read_html(PAGE, "https://rivers.example/p/")

    assert page == readable(PAGE, "https://rivers.example/p/")


async def test_pages_wait_for_each_other_and_nothing_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_end = threading.Event()
    at_once: list[str] = []

    def endless(name: str, file: object, order: bytes, **_: object) -> None:
        at_once.append(order.decode())
        may_end.wait(60)
        raise ChildKilled("time", reader.LIMITS)

    monkeypatch.setattr(reader, "read_in_child", endless)
    pages = [asyncio.create_task(read_html("<p>x", f"https://a.example/{n}")) for n in range(40)]
    while not at_once:
        await asyncio.sleep(0.01)

    # All threads of the loop's own executor are there for others.
    everyone = threading.Barrier(2)
    await asyncio.gather(*(asyncio.to_thread(everyone.wait, 30) for _ in range(2)))
    assert len(at_once) <= 2
    may_end.set()
    outcomes = await asyncio.gather(*pages, return_exceptions=True)

    assert all(isinstance(outcome, Unreadable) for outcome in outcomes)
    assert len(at_once) == 40


@pytest.mark.slow
async def test_page_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(Unreadable):
        await read_html("<div>" * 200_000, "https://a.example/")
