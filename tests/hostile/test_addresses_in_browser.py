"""Addresses that lie, wherever an answer may have one, and what a real browser makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from chat import events
from chat.rendering import addresses
from chat.rendering.addresses import host_of, is_safe_link
from chat.rendering.markdown import render
from chat.rendering.patches import Answer
from tests.hostile.addresses import ADDRESSES
from tests.hostile.page import Report, Stage, staged
from tests.rendering.stories import RUN, message, numbered

pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.needs("chromium"),
]
NOTHING = Report()
LOOKED_UP = ("research", "read")


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """No database here, and the browser's event loop would forbid its use."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as stage:
        yield stage


def shown(*parts: events.Event) -> str:
    answer = Answer(RUN)
    for event in numbered(list(parts)):
        answer.apply(event)
    answer.unfold()
    return answer.snapshot()


def result(output: str) -> str:
    return shown(events.ToolCallSuccess(item=0, tool="read", arguments={}, output=output))


def cited(url: str) -> str:
    source = events.Citation(kind="url", title="Source", url=url, end=3)
    return shown(*message("Said.", item=0), events.CitationAdd(item=0, citation=source))


def media(url: str) -> str:
    return shown(events.MediaUpdate(item=0, media_id="m", media_type="image/png", url=url))


def inside(url: str) -> str:
    """A picture that says it is inside the event."""
    return shown(events.MediaUpdate(item=0, media_id="m", media_type="image/png", data=url))


def step(url: str) -> str:
    family, name = LOOKED_UP
    return shown(
        events.ActivityStep(
            family=family,
            step=name,
            phase="done",
            label=f"Read {url}",
            detail={"arguments": {"url": url}},
        )
    )


PLACES: dict[str, Callable[[str], str]] = {
    "link": lambda url: render(f"[words]({url})"),
    "link in brackets": lambda url: render(f"[words](<{url}> 'title')"),
    "definition": lambda url: render(f"[words][r] [r] ![r]\n\n[r]: <{url}>"),
    "bare definition": lambda url: render(f"[r]\n\n[r]: {url}\n"),
    "picture": lambda url: render(f"![words]({url}) ![words](<{url}>)"),
    "autolink": lambda url: render(f"<{url}>"),
    "words": lambda url: render(f"{url} and {url}"),
    "cell": lambda url: render(f"| a |\n|---|\n| [x](<{url}>) |"),
    "citation": cited,
    "medium": media,
    "picture inside": inside,
    "result": result,
    "result in JSON": lambda url: result(json.dumps({"url": url, url: [url]})),
    "result in parts": lambda url: result(
        json.dumps([{"type": "text", "text": url}, {"type": "image", "mimeType": url, "data": url}])
    ),
    "step": step,
}


@pytest.mark.parametrize("has_policy", [True, False], ids=["policy", "no policy"])
def test_no_address_leads_elsewhere_than_to_the_web_and_to_mail(
    stage: Stage, has_policy: bool
) -> None:
    htmls = ["".join(make(url) for make in PLACES.values()) for url in ADDRESSES]

    assert stage.look(htmls, has_policy=has_policy, size=100) == NOTHING


@pytest.mark.parametrize("place", ["citation", "medium", "result", "result in JSON"])
def test_the_check_finds_addresses_that_nobody_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    for module in ("texts", "cards", "trees"):
        monkeypatch.setattr(f"chat.rendering.{module}.is_safe_link", lambda url: True)

    report = stage.look([PLACES[place](url) for url in ADDRESSES], has_policy=False)

    kinds = {problem.split(":")[0].split(" <")[0] for problem in report.problems}
    assert {"scheme javascript", "scheme data"} <= kinds
    assert any(kind.startswith("leads into the application") for kind in kinds)
    # With ``rel`` and ``target`` it would run in a page of its own.
    assert "popup" in report.requests


def test_a_hosts_name_is_the_one_where_the_browser_goes(stage: Stage) -> None:
    links = [url for url in ADDRESSES if is_safe_link(url) and not url.lower().startswith("mail")]

    names = stage.names_of(links)

    # What is no address leads nowhere; numbers are read as they stand.
    told = [
        (url, name, host_of(url))
        for url, name in zip(links, names, strict=True)
        if name is not None
    ]
    assert len(told) > 50
    assert [each for each in told if each[1] != each[2] and not is_number(each[1])] == []


def is_number(host: str) -> bool:
    return host.startswith("[") or host.replace(".", "").isdecimal()


def test_a_name_that_looks_like_another_is_told_beside_the_address() -> None:
    lookalike = "https://аpple.com/"

    assert "xn--pple-43d.com" in media(lookalike)
    assert "xn--pple-43d.com" in cited(lookalike)
    assert "https://аpple.com/ (xn--pple-43d.com)" in result(lookalike)
    assert "аpple.com/ (xn--pple-43d.com)" in step(lookalike)
    assert addresses.with_host("https://apple.com/", "https://apple.com/") == "https://apple.com/"


def test_a_backslash_ends_the_host_that_is_told() -> None:
    deceiving = "https://evil.test\\@good.test/"

    assert ">evil.test<" in media(deceiving)
    assert ">evil.test<" in cited(deceiving)
