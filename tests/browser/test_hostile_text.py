"""Hostile text in every part of an answer runs nothing, wherever it is shown."""

import json
import uuid
from collections.abc import Iterator, Sequence
from itertools import count
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pytest
from playwright.sync_api import Request, expect

from chat import events
from chat.events import Event, ItemEvent, encode
from chat.run_details.views.details import TABS
from tests.hostile.grammar import DRAWINGS, FORMULAS, PIECES, texts
from tests.rendering.hostile_texts import HOSTILE, everywhere
from tests.rendering.stories import end
from tests.support.browser import streams
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.selection import sample
from tests.support.upstream.script import Script, lmstudio_event, stream

SEED = 20_261_123
# That each piece is harmless in each field of an answer is shown by tests/hostile; here some of them
# are shown on the pages of the application, with its scripts, and all that scripts draw.
PAYLOADS = [
    *HOSTILE,
    *PIECES[::8],
    *(
        f"```mermaid\n{drawing}\n```\n\n$$\n{FORMULAS[at]}\n$$"
        for at, drawing in enumerate(DRAWINGS)
    ),
    *texts(3, seed=SEED),
]
# In one answer they would not stay quick. Each has some of every kind.
ANSWERS = 3
LAST = "The end of it."

MARK = """window.hits = [];
window.hit = (...said) => { window.hits.push(`${location.pathname} ${said}`); };
for (const name of ["alert", "confirm", "prompt", "print"]) window[name] = window.hit;"""
# What no page of ours has by itself, and what content would need to have an effect.
STRANGE = """() => [...document.querySelectorAll("*")].filter(element =>
  (element.localName === "script" && !(element.src && new URL(element.src).origin === location.origin))
  || /^(object|embed|base|applet|frame|frameset|plaintext|marquee|portal|x-y)$/.test(element.localName)
  || (element.localName === "iframe" && !/^\\/(frames|preview)\\//.test(element.getAttribute("src") ?? ""))
  || [...element.attributes].some(({name, value}) => /^on/i.test(name) || name === "srcdoc"
       || (/^(hx|data-hx|sse|ws)-/.test(name) && /evil|reached|hit\\(|js:/.test(value))
       || (/^(href|src|action|formaction|xlink:href)$/.test(name) && /^\\s*(javascript|vbscript|file|blob):/i.test(value))
       || (/^(data-part|data-copy-source|data-stream|data-list|data-changes)$/.test(name) && !value.startsWith("/"))
       || (name === "data-part" && value === "/reached"))
).map(element => element.outerHTML.slice(0, 300))"""
OPEN_ALL = """() => {
  for (const fold of document.querySelectorAll("main details, #panel details")) fold.open = true;
  for (const element of document.querySelectorAll(".answer *, #panel *")) {
    if (element.closest("a, button, summary, form, input, iframe")) continue;
    for (const name of ["pointerover", "mouseover", "focus", "toggle", "load", "error", "click"])
      element.dispatchEvent(new MouseEvent(name, {bubbles: true, cancelable: true}));
  }
}"""
# What pages of ours request by themselves.
OWN = (
    "/static/",
    "/live/",
    "/c/",
    "/r/",
    "/frames/diagram/",
    "/preview/",
    "/f/",
    "/settings/servers/",
)


def as_tributary_sends(events_: Sequence[Event]) -> list[dict[str, object]]:
    """The lines of another Tributary's stream."""
    return [
        {**json.loads(encode(event)), "run": "r", "seq": seq}
        for seq, event in enumerate(events_, start=1)
    ]


def full_of(payloads: Sequence[str]) -> Script:
    """One answer in which every field of every event holds each of these texts."""
    said: list[Event] = []
    for at, text in enumerate(payloads):
        for event in everywhere(text)[:-2]:
            if isinstance(event, ItemEvent):
                event.item += 10 * at
            said.append(event)
    last = 10 * len(payloads)
    said += [
        events.MessageStart(item=last),
        events.MessageDelta(item=last, content=LAST),
        events.MessageEnd(item=last),
        everywhere(" ".join(payloads)[:3000])[-2],
        end("failed", error=events.ErrorInfo(kind="server", message=" ".join(payloads)[:3000])),
    ]
    return stream(b"".join(map(lmstudio_event, as_tributary_sends(said))))


class WatchedTab:
    """A tab that records what it requested and what ran in it."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.asked: list[str] = []
        self.said: list[str] = []
        tab.add_init_script(MARK)
        tab.on("request", self._note)
        tab.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        tab.on("popup", lambda popup: self.said.append("popup"))

    def _note(self, request: Request) -> None:
        is_page = request.is_navigation_request() and request.frame.parent_frame is None
        address = urlsplit(request.url)
        is_ours = f"{address.scheme}://{address.netloc}" == self.tab.site.url
        is_usual = is_ours and (address.path.startswith(OWN) or is_page)
        if not is_usual and address.scheme not in ("data", "blob"):
            self.asked.append(request.url)

    def assert_nothing_ran(self, *, touched: bool = True) -> None:
        page = self.tab.page
        if touched:
            page.evaluate(OPEN_ALL)
            page.wait_for_timeout(50)
        where = page.url
        assert page.evaluate(STRANGE) == [], where
        assert page.evaluate("() => window.hits") == [], where
        assert (self.asked, self.said) == ([], []), where
        assert (self.tab.violations, self.tab.errors) == ([], []), where


@pytest.fixture(scope="module")
def hostile_runs(shared_site: BrowserSite) -> Iterator[list[UUID]]:
    """Answers that together hold every payload in every field and in the title."""
    site = shared_site
    site.rows("UPDATE chat_upstream SET dialect = 'lmstudio', base_url = ?", site.fake.url)
    runs = []
    for part in (PAYLOADS[at::ANSWERS] for at in range(ANSWERS)):
        site.fake.script(full_of(part))
        runs.append(site.send(" ".join(part)[:4000]))
        site.until_ended(runs[-1])
    yield runs
    site.settle()


def test_hostile_conversations_run_nothing(
    site: BrowserSite, tab: OpenTab, hostile_runs: list[UUID]
) -> None:
    alice = WatchedTab(tab("Alice"))

    for run in hostile_runs:
        alice.tab.open(site.room(run)).shows(LAST)
        alice.assert_nothing_ran()
        expect(alice.tab.page.locator("#composer")).to_have_count(1)


def test_hostile_answer_runs_nothing_live(site: BrowserSite, tab: OpenTab) -> None:
    alice = WatchedTab(tab("Alice", "/"))
    alice.tab.reload()
    site.fake.script(full_of(PAYLOADS[::6]))

    alice.tab.write(" ".join(PAYLOADS[::6])[:2000])
    alice.tab.page.wait_for_url("**/c/*/")
    alice.tab.shows(LAST).until_ended()

    alice.assert_nothing_ran()
    live = alice.tab.normalized()
    assert "evil.test" in live


def other_pages_of(site: BrowserSite, run: UUID) -> list[str]:
    """The pages beside the conversation that show something of this run."""
    room, key = site.conversation_of(run), site.run(run)["id"]
    artifacts = site.rows(
        "SELECT DISTINCT a.public_id FROM chat_artifact a JOIN chat_artifactversion v"
        " ON v.artifact_id = a.id WHERE v.run_id = ? LIMIT 1",
        key,
    )
    entries = site.entries(run)
    some = [entries[len(entries) // 3].seq, entries[-1].seq]
    return [
        f"/c/{room}/files/",
        f"/c/{room}/people/",
        *(f"/r/{run}/details/?tab={tab}" for tab in TABS),
        *(f"/r/{run}/details/?at={seq}" for seq in some),
        f"/r/{run}/replay/?at={some[-1]}",
        *(
            f"/a/{UUID(row['public_id'])}/1/{page}"
            for row in artifacts
            for page in ("", "code/", "versions/")
        ),
    ]


def test_hostile_panels_run_nothing(
    site: BrowserSite, tab: OpenTab, hostile_runs: list[UUID]
) -> None:
    alice = WatchedTab(tab("Alice"))

    for address in other_pages_of(site, hostile_runs[0]):
        alice.tab.open(address)
        alice.assert_nothing_ran()


def test_hostile_lists_and_admin_run_nothing(
    site: BrowserSite, people: People, hostile_runs: list[UUID]
) -> None:
    ada = WatchedTab(people.tab(site, "Ada"))
    room, run = site.conversation_of(hostile_runs[0]), site.run(hostile_runs[0])
    number = site.value("SELECT id FROM chat_conversation WHERE public_id = ?", room.hex)
    server = UUID(site.world.upstream)
    addresses = [
        *(
            "/",
            "/inbox/",
            "/c/list/",
            "/people/",
            "/settings/servers/",
        ),
        *(
            f"/settings/servers/{server}/{tab}"
            for tab in ("", "models/", "settings/", "diagnostics/")
        ),
        # tests/administration/test_hostile.py looks at all lists.
        *("/admin/chat/conversation/", "/admin/chat/artifactversion/"),
        f"/admin/chat/conversation/{number}/change/",
        f"/admin/chat/run/{run['id']}/change/",
    ]

    for address in addresses:
        ada.tab.open(address)
        ada.assert_nothing_ran()


WAITING = 4


def waiting_for(text: str) -> Script:
    """An answer that asks people something, all in one hostile text."""
    ask = events.AskQuestion(
        ask_id=str(uuid.uuid4()),
        question=text,
        options=[text, {"label": text, "description": text}],
        fields=[{"name": text, "label": text, "type": "text"}],
        allow_free_text=True,
    )
    return streams.scripted(
        as_tributary_sends([events.ChatStart(model_instance_id=text), ask, end("waiting")])
    )


def test_hostile_questions_run_nothing(site: BrowserSite, tab: OpenTab) -> None:
    numbers = count()
    runs = []
    for text in PAYLOADS[:: len(PAYLOADS) // WAITING]:
        site.fake.script(waiting_for(text))
        runs.append(site.send(f"{next(numbers)} {text}"[:4000]))
        site.until_ended(runs[-1])
    alice = WatchedTab(tab("Alice"))

    alice.tab.open("/inbox/")
    expect(alice.tab.page.locator("main")).to_contain_text("hit()")
    alice.assert_nothing_ran()
    for run in runs:
        alice.tab.open(site.room(run))
        alice.assert_nothing_ran()


PLAIN = ("application/json", "text/plain", "text/event-stream", "application/x-ndjson")
RAW = (
    "/api/v1/runs/{run}/events?after=0",
    "/r/{run}/export/events/",
    "/r/{run}/replay/frames/?after=0&step=0&most=50",
    "/r/{run}/replay/moment/?seq=9",
    "/m/{message}/source/",
    "/a/{artifact}/1/raw/",
)


def test_raw_responses_are_no_pages(
    site: BrowserSite, hostile_runs: list[UUID], subtests: pytest.Subtests
) -> None:
    run = hostile_runs[0]
    message = site.value(
        "SELECT public_id FROM chat_message WHERE id = ?", site.run(run)["message_id"]
    )
    artifact = site.value(
        "SELECT a.public_id FROM chat_artifact a JOIN chat_artifactversion v"
        " ON v.artifact_id = a.id WHERE v.run_id = ? LIMIT 1",
        site.run(run)["id"],
    )

    for address in RAW:
        path = address.format(run=run, message=UUID(message), artifact=UUID(artifact))
        with (
            subtests.test(msg=address),
            site.browser("Alice") as browser,
            browser.stream("GET", path) as response,
        ):
            assert response.status_code == 200
            assert is_inert(response), dict(response.headers)


def is_inert(response: httpx.Response) -> bool:
    headers = response.headers
    is_plain = headers["content-type"].split(";")[0] in PLAIN
    is_kept = headers.get("content-disposition", "").startswith("attachment")
    return (is_plain or is_kept) and headers["x-content-type-options"] == "nosniff"


def test_planted_markup_is_noticed(site: BrowserSite, tab: OpenTab) -> None:
    planted = "<img src=http://evil.test/x onerror=hit()><b onclick=hit()>x</b>"
    site.fake.script(streams.telling("Harmless."))
    alice = WatchedTab(tab("Alice"))
    alice.tab.open(site.room(site.send("Tell us."))).until_ended()

    alice.tab.page.evaluate(
        "html => { document.querySelector('.answer').insertAdjacentHTML('beforeend', html) }",
        planted,
    )

    with pytest.raises(AssertionError):
        alice.assert_nothing_ran()
    assert len(alice.tab.page.evaluate(STRANGE)) == 2
    alice.tab.until(lambda: alice.tab.violations, "the policy says no")
    alice.tab.violations.clear()


# --- beside the answer ---------------------------------------------------------------------------


def hostile_everywhere() -> Script:
    """Each text in every place where text can be; in `make test` a sample of the texts."""
    parts = []
    for text in sample(HOSTILE, 9):
        arguments = {"text": text, text: 1}
        parts += [
            streams.open_item("reasoning"),
            streams.think(text),
            streams.close_item("reasoning"),
            *streams.call(text, arguments, text),
            streams.open_item("message"),
            *(streams.say(text[at : at + 3]) for at in range(0, len(text), 3)),
            streams.say("\n\n"),
            streams.close_item("message"),
        ]
    return streams.scripted(
        streams.BEGINNING, parts, streams.fail("".join(HOSTILE) + " The end of it.")
    )


OUTSIDE = """() => {
  const page = document.body.cloneNode(true);
  for (const answer of page.querySelectorAll(".answer, .figures")) answer.replaceChildren();
  const ids = [...page.querySelectorAll("[id]")].map(element => element.id);
  return {ids: ids.filter(id => !/^([abmnpqr]|(runs|asks|rest|rest-note|retry)-)[0-9a-f]{32}$/.test(id)).sort(),
          forms: page.querySelectorAll("form").length, scripts: page.querySelectorAll("script").length};
}"""
# A script sets the sizes of a formula; no content can pass itself off as a drawn formula.
INSIDE = """() => [...document.querySelectorAll(".answer *")].filter(element =>
  /^(script|style|iframe|object|embed|form|base|meta|link|template|title)$/i.test(element.tagName)
  || /^hx-/i.test(element.tagName)
  || [...element.attributes].some(({name, value}) => /^(hx-|data-hx-|on|autofocus)/.test(name)
       || (name.startsWith("style") && !element.closest(".math > .katex, .math > .katex-display"))
       || (/^(href|src|action)$/.test(name) && !/^(https?:|mailto:|#|\\/static\\/)/i.test(value)))
).map(element => element.outerHTML)"""


@pytest.mark.smoke
def test_hostile_content_stays_in_its_answer(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Harmless."))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()
    harmless = alice.page.evaluate(OUTSIDE)
    asked: list[Request] = []
    said: list[str] = []
    alice.on("request", lambda request: asked.append(request))
    alice.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    site.fake.script(hostile_everywhere())

    alice.write("Now the other one")
    alice.page.wait_for_function("() => document.querySelectorAll('#turns .answer').length === 2")
    alice.composer.press_sequentially("draft")
    alice.shows("The end of it.").until_ended()

    own = [f"{site.url}/static/", f"{site.url}{site.room(run)}", f"{site.url}/c/list/", "ws://"]
    assert [each.url for each in asked if not each.url.startswith(tuple(own))] == []
    assert said == []
    assert alice.page.evaluate(INSIDE) == []
    now = alice.page.evaluate(OUTSIDE)
    assert now["ids"] == harmless["ids"]
    assert now["scripts"] == harmless["scripts"]
    alice.has_title("Tell us. · Tributary")
    expect(alice.composer).to_have_value("draft")
    expect(alice.composer).to_be_focused()
    live = alice.normalized()
    assert live == alice.reload().normalized()
    assert said == []


FOREIGN = (
    "script, style, img, iframe, form, input:not([type=checkbox]), title, template, hx-partial,"
    "[onclick], [onerror], [onfocus], [hx-get], [id=composer]"
)


def test_hostile_titles_and_messages_stay_text(site: BrowserSite, tab: OpenTab) -> None:
    text = "\n\n".join(HOSTILE)
    site.fake.script(streams.telling("First."), streams.telling("Told."))
    room = site.room(site.send("Tell us."))
    said: list[str] = []
    alice, bob = tab("Alice", room).until_ended(), tab("Bob", room).until_ended()
    bob.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))

    # A page gets only some titles live. The escaping of each is tested in tests/hostile.
    for title in HOSTILE[::4]:
        site.post("Alice", f"{room}rename/", title=title)
        shown = " ".join(title.split())
        expect(bob.page.locator("#room-head h1")).to_have_text(shown)
        bob.has_title(f"{shown} · Tributary")
    alice.write(text)
    bob.shows("Told.").until_ended()

    turn = bob.turns.nth(2)
    # Rendered as Markdown, of whose HTML nothing becomes an element.
    expect(turn.locator(".words")).to_be_visible()
    assert turn.locator(".words").locator(FOREIGN).count() == 0
    turn.get_by_role("link", name="Show source").click()
    expect(turn.locator(".source")).to_have_text(text)
    expect(bob.turns).to_have_count(4)
    expect(bob.page.locator("#composer")).to_have_count(1)
    assert said == []
