"""Every part of an answer with hostile text in it, wherever people look: live, kept, beside, listed."""

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
from chat.demo.script import Script, lmstudio_event, stream
from chat.events import Event, ItemEvent, encode
from tests.browser.conftest import OpenTab, People
from tests.hostile.grammar import DRAWINGS, FORMULAS, PIECES, texts
from tests.rendering.stories import end
from tests.rendering.test_hostile import HOSTILE, everywhere
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

SEED = 20_261_123
PAYLOADS = [
    *HOSTILE,
    *PIECES,
    *(
        f"```mermaid\n{drawing}\n```\n\n$$\n{FORMULAS[at]}\n$$"
        for at, drawing in enumerate(DRAWINGS)
    ),
    *texts(10, seed=SEED),
]
# As many in one answer as it stays quick with.
IN_ONE = 22
LAST = "The end of it."

MARK = """window.hits = [];
window.hit = (...said) => { window.hits.push(`${location.pathname} ${said}`); };
for (const name of ["alert", "confirm", "prompt", "print"]) window[name] = window.hit;"""
# What no page of ours has of itself, and what content would have to bring to be heard.
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
# What pages of ours ask for by themselves.
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


def relayed(events_: Sequence[Event]) -> list[dict[str, object]]:
    """As another Tributary sends them."""
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
    return stream(b"".join(map(lmstudio_event, relayed(said))))


class Watched:
    """A tab that notes what it asked for and what ran in it."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.asked: list[str] = []
        self.said: list[str] = []
        tab.page.add_init_script(MARK)
        tab.page.on("request", self._note)
        tab.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        tab.page.on("popup", lambda popup: self.said.append("popup"))

    def _note(self, request: Request) -> None:
        is_page = request.is_navigation_request() and request.frame.parent_frame is None
        address = urlsplit(request.url)
        is_ours = f"{address.scheme}://{address.netloc}" == self.tab.site.url
        is_usual = is_ours and (address.path.startswith(OWN) or is_page)
        if not is_usual and address.scheme not in ("data", "blob"):
            self.asked.append(request.url)

    def is_quiet(self, *, touched: bool = True) -> None:
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
    """Answers that together hold every payload in every field, in rooms that are called like one."""
    site = shared_site
    site.rows("UPDATE chat_upstream SET dialect = 'lmstudio', base_url = ?", site.fake.url)
    parts = [PAYLOADS[at : at + IN_ONE] for at in range(0, len(PAYLOADS), IN_ONE)]
    runs = []
    for part in parts:
        site.fake.script(full_of(part))
        runs.append(site.send(" ".join(part)[:4000]))
        site.until_ended(runs[-1])
    yield runs
    site.settle()


def test_rooms_show_hostile_parts_and_nothing_more(
    site: BrowserSite, tab: OpenTab, hostile_runs: list[UUID]
) -> None:
    alice = Watched(tab("Alice"))

    for run in hostile_runs:
        alice.tab.open(site.room(run)).shows(LAST)
        alice.is_quiet()
        expect(alice.tab.page.locator("#composer")).to_have_count(1)


def test_a_hostile_answer_that_is_written_runs_nothing(site: BrowserSite, tab: OpenTab) -> None:
    alice = Watched(tab("Alice", "/"))
    alice.tab.reload()
    site.fake.script(full_of(PAYLOADS[::9]))

    alice.tab.write(" ".join(PAYLOADS[::9])[:2000])
    alice.tab.page.wait_for_url("**/c/*/")
    alice.tab.shows(LAST).until_ended()

    alice.is_quiet()
    live = alice.tab.normalised()
    assert "evil.test" in live


def beside(site: BrowserSite, run: UUID) -> list[str]:
    """The pages on which one sees something of this run."""
    room, key = site.conversation_of(run), site.run(run)["id"]
    artifacts = site.rows(
        "SELECT DISTINCT a.public_id FROM chat_artifact a JOIN chat_artifactversion v"
        " ON v.artifact_id = a.id WHERE v.run_id = ? LIMIT 1",
        key,
    )
    entries = site.entries(run)
    some = [entry.seq for entry in entries[:: max(1, len(entries) // 12)]]
    return [
        f"/c/{room}/files/",
        f"/c/{room}/people/",
        f"/r/{run}/details/",
        *(f"/r/{run}/details/?at={seq}" for seq in some),
        *(f"/r/{run}/replay/?at={seq}" for seq in some[::3]),
        *(
            f"/a/{UUID(row['public_id'])}/1/{page}"
            for row in artifacts
            for page in ("", "code/", "versions/")
        ),
    ]


def test_what_stands_beside_a_room_runs_nothing(
    site: BrowserSite, tab: OpenTab, hostile_runs: list[UUID]
) -> None:
    alice = Watched(tab("Alice"))

    for run in hostile_runs[::3]:
        for address in beside(site, run):
            alice.tab.open(address)
            alice.is_quiet()


def test_lists_settings_and_the_administration_run_nothing(
    site: BrowserSite, people: People, hostile_runs: list[UUID]
) -> None:
    ada = Watched(people.tab(site, "Ada"))
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
            f"/settings/servers/{server}/",
        ),
        *("/admin/", "/admin/chat/conversation/", "/admin/chat/run/", "/admin/chat/auditevent/"),
        *("/admin/chat/artifactversion/", "/admin/chat/mockupversion/", "/admin/chat/storedfile/"),
        f"/admin/chat/conversation/{number}/change/",
        f"/admin/chat/run/{run['id']}/change/",
    ]

    for address in addresses:
        ada.tab.open(address)
        ada.is_quiet()


WAITING = 12


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
        relayed([events.ChatStart(model_instance_id=text), ask, end("waiting")])
    )


def test_what_waits_for_a_person_runs_nothing(site: BrowserSite, tab: OpenTab) -> None:
    numbers = count()
    runs = []
    for text in PAYLOADS[:: len(PAYLOADS) // WAITING]:
        site.fake.script(waiting_for(text))
        runs.append(site.send(f"{next(numbers)} {text}"[:4000]))
        site.until_ended(runs[-1])
    alice = Watched(tab("Alice"))

    alice.tab.open("/inbox/")
    expect(alice.tab.page.locator("main")).to_contain_text("hit()")
    alice.is_quiet()
    for run in runs:
        alice.tab.open(site.room(run))
        alice.is_quiet()


PLAIN = ("application/json", "text/plain", "text/event-stream", "application/x-ndjson")


@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/runs/{run}/events?after=0",
        "/r/{run}/export/events/",
        "/r/{run}/replay/frames/?after=0&step=0&most=50",
        "/r/{run}/replay/moment/?seq=9",
        "/m/{message}/source/",
        "/a/{artifact}/1/raw/",
    ],
)
def test_what_programs_read_is_no_page(
    site: BrowserSite, hostile_runs: list[UUID], address: str
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
    path = address.format(run=run, message=UUID(message), artifact=UUID(artifact))

    with site.browser("Alice") as browser, browser.stream("GET", path) as response:
        assert response.status_code == 200, path
        assert is_inert(response), dict(response.headers)


def is_inert(response: httpx.Response) -> bool:
    headers = response.headers
    is_plain = headers["content-type"].split(";")[0] in PLAIN
    is_kept = headers.get("content-disposition", "").startswith("attachment")
    return (is_plain or is_kept) and headers["x-content-type-options"] == "nosniff"


def test_the_watch_notices_what_it_is_made_for(
    site: BrowserSite, tab: OpenTab, hostile_runs: list[UUID]
) -> None:
    planted = "<img src=http://evil.test/x onerror=hit()><b onclick=hit()>x</b>"
    alice = Watched(tab("Alice"))
    alice.tab.open(site.room(hostile_runs[0])).shows(LAST)

    alice.tab.page.evaluate(
        "html => { document.querySelector('.answer').insertAdjacentHTML('beforeend', html) }",
        planted,
    )

    with pytest.raises(AssertionError):
        alice.is_quiet()
    assert len(alice.tab.page.evaluate(STRANGE)) == 2
    alice.tab.until(lambda: alice.tab.violations, "the policy says no")
    alice.tab.violations.clear()
