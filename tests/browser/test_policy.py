"""No page breaks its content security policy, and nothing that a server sends becomes active."""

import re
from collections.abc import Iterator
from uuid import UUID

import lxml.html
import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from playwright.sync_api import Request, expect

from chat.demo.script import Script, answer, openai_chunks, openai_run, stream
from tests.browser.conftest import OpenTab, People
from tests.browser.test_files import X_EVENTS
from tests.rendering.test_hostile import HOSTILE
from tests.runs.waiting import WEATHER, calling
from tests.support.browser import streams
from tests.support.browser.site import BrowserSite
from tests.support.processes.site import soon

POLICY = {
    *("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"),
    *("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'", "object-src 'none'"),
}
# Answer no page: JSON, JavaScript, a file, a frame with a policy of its own (test_text), or a redirect
# to wherever a record is shown.
NOT_PAGES = {
    "frames/diagram/",
    *("admin/autocomplete/", "admin/jsi18n/", "m/<uuid:public_id>/source/"),
    *("a/<uuid:public_id>/<int:number>/raw/", "f/<uuid:public_id>/"),
    *("c/<uuid:public_id>/files.zip", "k/<uuid:public_id>/<int:number>/zip/"),
    *("preview/<str:token>/", "preview/<str:token>/<path:path>"),
    *("r/<uuid:public_id>/export/<slug:form>/", "r/<uuid:public_id>/part/<slug:part_id>/"),
    "r/<uuid:public_id>/pictures/",
    "r/<uuid:public_id>/media/<int:choice>/<int:item>/<int:position>/",
    *("r/<uuid:public_id>/replay/frames/", "r/<uuid:public_id>/replay/moment/"),
}
# Shown only while nobody has an account: the test of the first run goes there.
ELSEWHERE = {"setup/<str:token>/"}
# What one must not be signed in for.
ENTRANCES = ("accounts/login", "accounts/signup", "accounts/password/reset", "invite/", "setup/")
BY_REGEX = {
    r"admin/^(?P<app_label>chat)/$": "admin/chat/",
    r"admin/(?P<url>.*)$": "admin/nothing/",
    "admin/r/<path:content_type_id>/<path:object_id>/": "admin/r/1/1/",
    r"^accounts/password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)/$": "{reset_link}",
}


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = f"{prefix}{pattern.pattern}"
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        else:
            yield route


def all_routes() -> list[str]:
    found = sorted(set(routes(get_resolver().url_patterns)) - NOT_PAGES - ELSEWHERE)
    return [*found, "no/such/page/"]


def is_entrance(route: str) -> bool:
    """A pattern begins with what it begins with; and a link that resets a password signs one out."""
    return route.removeprefix("^").startswith(ENTRANCES)


# By which column a row belongs to which run of `Made`.
OWN = {
    "chat_conversation": ("id", "conversation_id", "run"),
    "chat_message": ("conversation_id", "conversation_id", "run"),
    "chat_run": ("id", "id", "run"),
    "chat_question": ("run_id", "id", "asking"),
    "chat_artifact": ("conversation_id", "conversation_id", "making"),
    "chat_artifactversion": ("run_id", "id", "making"),
    "chat_mockup": ("conversation_id", "conversation_id", "making"),
    "chat_mockupversion": ("run_id", "id", "making"),
    "chat_storedfile": ("conversation_id", "conversation_id", "making"),
}
# Tests that share the addresses.
PARTS = 4


class Made:
    """Something of everything, so that every address leads somewhere."""

    def __init__(self, site: BrowserSite) -> None:
        self.site = site
        site.fake.script(scenes())
        run = site.send("# Title <b>\n\nwith *words*")
        site.until_ended(run)
        self.run = run
        self.reset_link = self._link(
            site.post("Ada", f"/people/{self._person('Charlie')}/reset-link/"),
            "accounts/password/reset/key/",
        )
        self.invitation_link = self._link(
            site.post(
                "Ada", f"/people/teams/{UUID(site.world.team)}/invite/", role="member", days="7"
            ),
            "invite/",
        )
        tools = f"/people/teams/{UUID(site.world.team)}/tools/add/"
        site.post("Ada", tools, name="gauge", description="", schema="")
        self._make_token()
        self._ask_for_a_tool()
        self._make_files()

    def _make_token(self) -> None:
        team = str(UUID(self.site.world.team))
        made = self.site.post("Alice", "/settings/tokens/", name="report", team=team, lifetime="7")
        assert made.status_code < 400, made.text

    def _ask_for_a_tool(self) -> None:
        with self.site.speaking("openai_chat"):
            self.site.fake.script(calling(WEATHER))
            self.asking = self.site.send("How is the weather?")
            self.site.until_ended(self.asking)

    def _make_files(self) -> None:
        """An artifact, and a mockup with a file that is fetched."""
        with self.site.speaking("xerotier"):
            self.site.fake.script(
                stream(openai_chunks([*X_EVENTS, *openai_run("Here they are.")])),
                answer(b"<h1>Board</h1>", method="GET", path="/v1/mockups/b-1/index.html"),
                answer(b"h1 {}", method="GET", path="/v1/mockups/b-1/css/style.css"),
            )
            self.making = self.site.send("Make a page.")
            self.site.until_ended(self.making)
            files = f"SELECT id FROM chat_storedfile WHERE {self._own('chat_storedfile')}"
            # All that the server has of it: it is asked while it speaks this dialect.
            soon(lambda: len(self.site.rows(files)) == 2)

    def unmake(self) -> None:
        """A team without tools is what other tests know."""
        self.site.post("Ada", f"/people/tools/{self._id('chat_tool', 'public_id')}/remove/")

    def _person(self, name: str) -> UUID:
        return self._id("chat_user", "public_id", f"name = '{name}'")

    def _own(self, table: str) -> str:
        """Which rows are ours: other tests of the same process leave rooms of their own, also very
        long and hostile ones, and an index gives out the first of random ids."""
        if table not in OWN:
            return "1"
        column, of_run, name = OWN[table]
        run = getattr(self, name)
        return f"{column} = (SELECT {of_run} FROM chat_run WHERE public_id = '{run.hex}')"

    def _id(self, table: str, column: str = "id", where: str = "1") -> UUID:
        which = f"{where} AND {self._own(table)}"
        value = self.site.value(f"SELECT {column} FROM {table} WHERE {which} LIMIT 1")
        return UUID(value) if column == "public_id" else value

    @staticmethod
    def _link(response: object, path: str) -> str:
        found = re.search(rf"{path}[\w~-]+/", response.text)  # type: ignore[attr-defined]
        assert found, response
        return found[0]

    def address(self, route: str) -> str:
        if route in BY_REGEX:
            return "/" + BY_REGEX[route].format(reset_link=self.reset_link)
        if route.startswith("invite/"):
            return "/" + self.invitation_link
        return "/" + re.sub(r"<\w+:(\w+)>", lambda found: self._value(route, found[1]), route)

    def _value(self, route: str, name: str) -> str:
        if name == "object_id":
            table = f"chat_{route.split('/')[2]}"
            is_runner = table == "chat_runner"
            return str(self._id(table, "uuid" if is_runner else "id"))
        kinds = {
            "c": self.site.conversation_of(self.run),
            "m": self._id("chat_message", "public_id", "role = 'user'"),
            "r": self.run,
            "k": self._id("chat_mockup", "public_id"),
            "settings": UUID(self.site.world.upstream),
            "q": self._id("chat_question", "public_id"),
            "a": self._id("chat_artifact", "public_id"),
            "f": self._id("chat_storedfile", "public_id"),
            "people": self._id("chat_tool", "public_id"),
        }
        values = {
            "before": self._id("chat_message", "public_id", "role = 'assistant'"),
            "team_id": UUID(self.site.world.team),
            "person_id": self._person("Bob"),
            "content_type_id": 1,
            "invitation_id": 1,
            "number": 1,
            "other": 1,
            "seq": 1,
        }
        return str(kinds[route.split("/")[0]] if name == "public_id" else values[name])


def scenes() -> Script:
    """One answer with every kind of thing that the demo's servers can send."""
    return streams.scripted(
        streams.BEGINNING,
        streams.open_item("reasoning"),
        streams.think("Where?"),
        streams.close_item("reasoning"),
        streams.call("read_gauge", {"station": "Ford"}, '{"level_m": 2}'),
        streams.call("open_sluice", {"n": 1}),
        {
            "type": "tool_call.failure",
            "reason": "No such tool",
            "metadata": {"type": "invalid_name"},
        },
        streams.open_item("message"),
        streams.say("# One\n\n```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"),
        streams.say("- [x] done\n\n![pic](https://example.org/x.png) [a](https://example.org/)"),
        streams.close_item("message"),
        {"type": "surprise", "what": "?"},
        streams.fail("It broke."),
    )


@pytest.fixture(scope="module")
def made(shared_site: BrowserSite) -> Iterator[Made]:
    made = Made(shared_site)
    yield made
    made.unmake()


@pytest.mark.parametrize("first", range(PARTS))
def test_no_page_breaks_its_policy_or_holds_an_inline_script_or_style(
    site: BrowserSite, people: People, made: Made, first: int
) -> None:
    """One tab of each kind of visitor goes from page to page."""
    tabs = {name: people.tab(site, name) for name in ("", "Ada")}
    for route in all_routes()[first::PARTS]:
        tab = tabs["" if is_entrance(route) else "Ada"]

        address = made.address(route)

        answer = tab.page.request.get(site.url + address)
        if answer.status == 405:
            assert answer.text() == "", route
            continue
        tab.open(address)

        expect(tab.page.locator("body")).not_to_be_empty()
        assert set(answer.headers["content-security-policy"].split("; ")) >= POLICY, route
        assert inline_parts(answer.text()) == [], route
        assert (tab.violations, tab.errors) == ([], []), route


def inline_parts(html: str) -> list[str]:
    if not html.strip():
        return []
    tree = lxml.html.fromstring(html)
    return [
        lxml.html.tostring(element, encoding="unicode")[:200]
        for element in tree.iter(lxml.html.etree.Element)
        if element.tag == "style"
        or (element.tag == "script" and not element.get("src"))
        or any(name == "style" or name.startswith("on") for name in element.attrib)
        or element.get("href", "").strip().lower().startswith("javascript:")
    ]


def test_a_page_with_every_scene_is_shown_live_without_a_violation(
    site: BrowserSite, tab: OpenTab
) -> None:
    alice = tab("Alice", "/")
    site.fake.script(scenes())

    alice.write("Show everything")

    alice.page.wait_for_url("**/c/*/")
    alice.shows("It broke.").until_ended()
    expect(alice.answer.locator("img")).to_have_count(0)


def hostile() -> Script:
    """Everywhere that text can stand."""
    parts = []
    for text in HOSTILE:
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
  return {ids: ids.filter(id => !/^([abmnpqr]|(runs|asks|rest|rest-note)-)[0-9a-f]{32}$/.test(id)).sort(),
          forms: page.querySelectorAll("form").length, scripts: page.querySelectorAll("script").length};
}"""
# A formula that was drawn has its sizes by script; no content can say that it is one.
INSIDE = """() => [...document.querySelectorAll(".answer *")].filter(element =>
  /^(script|style|iframe|object|embed|form|base|meta|link|template|title)$/i.test(element.tagName)
  || /^hx-/i.test(element.tagName)
  || [...element.attributes].some(({name, value}) => /^(hx-|data-hx-|on|autofocus)/.test(name)
       || (name.startsWith("style") && !element.closest(".math > .katex, .math > .katex-display"))
       || (/^(href|src|action)$/.test(name) && !/^(https?:|mailto:|#|\\/static\\/)/i.test(value)))
).map(element => element.outerHTML)"""


def test_hostile_content_runs_nothing_asks_nothing_and_stays_in_its_answer(
    site: BrowserSite, tab: OpenTab
) -> None:
    site.fake.script(streams.telling("Harmless."))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).until_ended()
    harmless = alice.page.evaluate(OUTSIDE)
    asked: list[Request] = []
    said: list[str] = []
    alice.page.on("request", lambda request: asked.append(request))
    alice.page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    site.fake.script(hostile())

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
    expect(alice.page).to_have_title("Tell us. · Tributary")
    expect(alice.composer).to_have_value("draft")
    expect(alice.composer).to_be_focused()
    live = alice.normalised()
    assert live == alice.reload().normalised()
    assert said == []


def test_hostile_words_of_a_colleague_stay_words(site: BrowserSite, tab: OpenTab) -> None:
    texts = list(enumerate(HOSTILE, start=1))
    site.fake.script(streams.telling("First."), *(streams.telling(f"Told {n}.") for n, _ in texts))
    run = site.send("Tell us.")
    bob = tab("Bob", site.room(run)).until_ended()
    said: list[str] = []
    bob.page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    alice = tab("Alice", site.room(run)).until_ended()

    for number, text in texts:
        alice.page.get_by_label("Rename, share, delete").click()
        alice.page.get_by_label("Title", exact=True).fill(text)
        alice.page.get_by_label("Title", exact=True).press("Enter")
        title = " ".join(text.split())
        expect(bob.page.locator("#room-head h1")).to_have_text(title)
        alice.write(text)
        bob.shows(f"Told {number}.").until_ended()
        alice.until_ended()

        expect(bob.turns.nth(2 * number).locator(".words")).to_have_text(text)
        expect(bob.page).to_have_title(f"{title} · Tributary")
        expect(bob.turns).to_have_count(2 + 2 * number)
        expect(bob.page.locator("#composer")).to_have_count(1)
        assert said == [], text
