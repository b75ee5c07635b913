"""Every page obeys its content security policy and is accessible, on one display each; `make
screenshots` looks at the pages on all of them."""

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import cycle
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import lxml.html
import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from playwright.sync_api import APIResponse, expect

from tests.runs.waiting import WEATHER, calling
from tests.support.browser import streams
from tests.support.browser.artifacts import FILE_EVENTS
from tests.support.browser.displays import (
    ALL_DISPLAYS,
    DESKTOP_DARK,
    PHONE_LIGHT,
    TWO_DISPLAYS,
    Display,
    open_details,
    serious_findings,
)
from tests.support.browser.people import OpenTab, People
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.processes.site import soon
from tests.support.upstream.script import Script, answer, openai_chunks, openai_run, stream

POLICY = {
    *("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"),
    *("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'", "object-src 'none'"),
}
# What answers is no page: JSON, JavaScript, a file, a frame with a policy of its own (test_text), or
# a redirect to wherever a record is shown.
NOT_PAGES = {
    "frames/diagram/",
    *("admin/autocomplete/", "admin/jsi18n/", "m/<uuid:public_id>/source/"),
    *("a/<uuid:public_id>/<int:number>/raw/", "f/<uuid:public_id>/"),
    *("c/<uuid:public_id>/export/<slug:form>/", "settings/data/<uuid:public_id>/file/"),
    *("c/<uuid:public_id>/files.zip", "k/<uuid:public_id>/<int:number>/zip/"),
    "skills/<uuid:public_id>/download/",
    *("preview/<str:token>/", "preview/<str:token>/<path:path>"),
    *("r/<uuid:public_id>/export/<slug:form>/", "r/<uuid:public_id>/part/<slug:part_id>/"),
    "r/<uuid:public_id>/text/",
    "r/<uuid:public_id>/pictures/",
    *("unsent/<slug:place>/<uuid:public_id>/chip/", "unsent/<slug:place>/<uuid:public_id>/read/"),
    # Lists that are empty here; test_transfers looks at them.
    *("settings/data/exports/", "settings/data/imports/"),
    "r/<uuid:public_id>/media/<int:choice>/<int:item>/<int:position>/",
    "people/<uuid:person_id>/picture/<slug:version>/",
    *("oauth/client-metadata.json", "settings/connections/callback/"),
    *("r/<uuid:public_id>/replay/frames/", "r/<uuid:public_id>/replay/moment/"),
}
# Shown only while nobody has an account: test_first_run goes there.
ONLY_AT_FIRST = {"setup/<str:token>/"}
# Pages for people who are not signed in.
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
    found = sorted(set(routes(get_resolver().url_patterns)) - NOT_PAGES - ONLY_AT_FIRST)
    return [*found, "no/such/page/"]


def is_entrance(route: str) -> bool:
    """Also the link that resets a password, which signs one out."""
    return route.removeprefix("^").startswith(ENTRANCES)


# By which column a row belongs to which run of `Samples`.
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


class Samples:
    """Something of everything, so that every address leads somewhere."""

    def __init__(self, site: BrowserSite) -> None:
        self.site = site
        site.fake.script(every_part())
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
        tools = f"/people/tools/add/{UUID(site.world.team)}/"
        site.post("Ada", tools, name="gauge", description="", schema="")
        team = str(UUID(site.world.team))
        # The server stays open to everyone.
        site.post(
            "Ada",
            f"/settings/servers/{UUID(site.world.upstream)}/access/add/",
            place=UUID(site.world.team).hex,
        )
        site.post("Ada", "/projects/new/", team=team, name="Gauges", color="red", access="team")
        self._make_token()
        self._ask_for_a_tool()
        self._make_files()
        self._share()
        self._queue_a_message()
        self._comment()
        self._compare()
        self._add_to_draft()
        self._write_for_reuse()
        self._set_up_provider()

    def _set_up_provider(self) -> None:
        """A provider that is off, so that other tests don't meet it."""
        made = self.site.post(
            "Ada",
            "/settings/company-sign-in/add/",
            name="Keycloak",
            issuer="http://127.0.0.1:9",
            client_id="tributary",
            scopes="openid",
            sign_up="invited",
            default_role="member",
        )
        assert made.status_code < 400, made.text

    def _write_for_reuse(self) -> None:
        """A prompt with a variable, a preset and a skill, of the administrator, who opens the pages."""
        choice = f"{self.site.world.upstream}:test/model"
        for address, values in (
            ("/prompts/new/", {"text": "Write to {{customer}}."}),
            ("/presets/new/", {"choice": choice, "icon": "pen-line"}),
        ):
            made = self.site.post("Ada", address, name="Letter", **values)
            assert made.status_code < 400, made.text
        self._upload_skill()
        made = self.site.post("Ada", "/skills/import/preview/", skills="letter", place="")
        assert made.status_code < 400, made.text
        # The preview has something to show.
        self._upload_skill()

    def _upload_skill(self) -> None:
        self.site.rows(
            "INSERT INTO chat_skillupload (user_id, name, body, created_at)"
            " SELECT id, 'SKILL.md', ?, CURRENT_TIMESTAMP FROM chat_user WHERE name = 'Ada'",
            b"---\nname: letter\ndescription: Writes letters.\n---\n# Letters\n",
        )

    def _add_to_draft(self) -> None:
        """A file of the message that Alice writes on the home page."""
        [content] = self.site.rows("SELECT sha256 FROM chat_filecontent LIMIT 1")
        [file] = self.site.rows(
            "INSERT INTO chat_storedfile"
            " (public_id, name, media_type, size_bytes, content_id, created_by_id, created_at)"
            " SELECT ?, 'a.bin', 'image/png', 1, ?, id, CURRENT_TIMESTAMP FROM chat_user"
            " WHERE name = 'Alice' RETURNING id, public_id",
            uuid4().hex,
            content["sha256"],
        )
        self.unsent = UUID(file["public_id"])
        self.site.rows(
            "INSERT INTO chat_unsentfile (user_id, file_id, place, created_at)"
            " SELECT id, ?, 'new', CURRENT_TIMESTAMP FROM chat_user WHERE name = 'Alice'",
            file["id"],
        )

    def _compare(self) -> None:
        """Two answers side by side, of which nobody has chosen one."""
        self.site.fake.script(streams.telling("The ford."), streams.telling("The bridge."))
        server, key = self.site.world.upstream, uuid4()
        form = {"choice": f"{server}:test/model", "compare": f"{server}:test/other"}
        team = self.site.world.team
        self.site.post(
            "Alice", "/c/", text="Which?", key=str(key), team=team, visibility="team", **form
        )
        self.compared = self.site.message_of(self.site._run_of(key))
        live = "SELECT 1 FROM chat_run WHERE status IN ('queued', 'running')"
        soon(lambda: not self.site.rows(live))

    def _comment(self) -> None:
        message = self._id("chat_message", "public_id", "role = 'user'")
        self.site.post("Alice", f"/m/{message}/comments/", text="Which one?", key=str(uuid4()))

    def _share(self) -> None:
        address = f"/c/{self.site.conversation_of(self.run)}/people/add/"
        who = f"person:{self._person('Bob')}"
        self.site.post("Alice", address, who=who, role="reader")

    def _queue_a_message(self) -> None:
        """It stays, because the answer before it fails."""
        end = streams.gate("queued")
        self.site.fake.script(streams.telling("Going", end, end_with=streams.fail("It broke.")))
        run = self.site.send("Begin.")
        soon(lambda: self.site.run(run)["status"] == "running")
        address = f"/c/{self.site.conversation_of(run)}/send/"
        parent = str(self.site.message_of(run))
        choice = f"{self.site.world.upstream}:test/model"
        self.site.post(
            "Alice", address, text="Then?", parent=parent, choice=choice, key=str(uuid4())
        )
        self.site.fake.release("queued")
        self.site.until_ended(run)

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
                stream(openai_chunks([*FILE_EVENTS, *openai_run("Here they are.")])),
                answer(b"<h1>Board</h1>", method="GET", path="/v1/mockups/b-1/index.html"),
                answer(b"h1 {}", method="GET", path="/v1/mockups/b-1/css/style.css"),
            )
            self.making = self.site.send("Make a page.")
            self.site.until_ended(self.making)
            files = f"SELECT id FROM chat_storedfile WHERE {self._own('chat_storedfile')}"
            # Both files are fetched while the server speaks this dialect.
            soon(lambda: len(self.site.rows(files)) == 2)

    def remove_tool(self) -> None:
        """Other tests expect a team without tools, and a picker without presets."""
        self.site.post("Ada", f"/presets/{self._id('chat_preset', 'public_id')}/delete/")
        self.site.post("Ada", f"/skills/{self._id('chat_skill', 'public_id')}/delete/")
        self.site.post("Ada", f"/people/tools/{self._id('chat_tool', 'public_id')}/remove/")
        self.site.rows("DELETE FROM chat_identityprovider")

    def _person(self, name: str) -> UUID:
        return self._id("chat_user", "public_id", f"name = '{name}'")

    def _own(self, table: str) -> str:
        """Selects our rows: other tests of the same process leave conversations, also very long and
        hostile ones, and an index gives out the first of random ids."""
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
        if name == "public_id" and "feedback" in route:
            # People rate answers alone.
            name = "before"
        if name != "public_id":
            return str(self._by_name[name]())
        if "company-sign-in" in route:
            return str(self._id("chat_identityprovider", "public_id"))
        if "comparison" in route:
            return str(self.compared)
        return str(self._by_folder[route.split("/")[0]]())

    @cached_property
    def _by_folder(self) -> dict[str, Callable[[], object]]:
        return {
            "c": lambda: self.site.conversation_of(self.run),
            "m": lambda: self._id("chat_message", "public_id", "role = 'user'"),
            "r": lambda: self.run,
            "k": lambda: self._id("chat_mockup", "public_id"),
            "settings": lambda: UUID(self.site.world.upstream),
            "q": lambda: self._id("chat_question", "public_id"),
            "a": lambda: self._id("chat_artifact", "public_id"),
            "f": lambda: self._id("chat_storedfile", "public_id"),
            "people": lambda: self._id("chat_tool", "public_id"),
            "administration": lambda: self.site.conversation_of(self.run),
            "projects": lambda: self._id("chat_project", "public_id"),
            "queued": lambda: self._id("chat_queuedmessage", "public_id"),
            "comments": lambda: self._id("chat_comment", "public_id"),
            "unsent": lambda: self.unsent,
            "prompts": lambda: self._id("chat_prompt", "public_id"),
            "presets": lambda: self._id("chat_preset", "public_id"),
            "skills": lambda: self._id("chat_skill", "public_id"),
        }

    @cached_property
    def _by_name(self) -> dict[str, Callable[[], object]]:
        return {
            "slug": lambda: "keycloak",
            "before": lambda: self._id("chat_message", "public_id", "role = 'assistant'"),
            "team_id": lambda: UUID(self.site.world.team),
            "grant_id": lambda: self._id("chat_modelgrant", "public_id"),
            "person_id": lambda: self._person("Bob"),
            "person": lambda: self._person("Bob"),
            "participant_id": lambda: self._id("chat_participant", "public_id"),
            "verb": lambda: "archive",
            "place": lambda: "new",
            **dict.fromkeys(
                ("content_type_id", "invitation_id", "pk", "number", "other", "seq"), lambda: 1
            ),
        }


def every_part() -> Script:
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
def samples(shared_site: BrowserSite) -> Iterator[Samples]:
    samples = Samples(shared_site)
    yield samples
    samples.remove_tool()


AREAS = {
    "sign-in": is_entrance,
    "admin": lambda route: route.startswith("admin/"),
    "settings": lambda route: route.startswith(("settings/", "people/", "accounts/")),
    "conversations": lambda route: True,
}

# Lists and forms of the administration are alike. Those of conversations and runs are opened, and others
# only if they have scripts of their own.
ALIKE = re.compile(r"admin/chat/(?!(conversation|run)/)")
IS_IN_SHELL = re.compile(r'<main [^>]*\bid="main"')


# A token against forged requests is another one in each response.
TOKEN = re.compile(r"\b[A-Za-z0-9]{64}\b")


def routes_of(area: str) -> list[str]:
    """Each route belongs to the first area that takes it."""
    return [route for route in all_routes() if area_of(route) == area]


def area_of(route: str) -> str:
    return next(area for area, takes in AREAS.items() if takes(route))


@pytest.mark.parametrize("area", AREAS)
def test_pages_obey_their_policy_and_are_accessible(
    site: BrowserSite, people: People, samples: Samples, subtests: pytest.Subtests, area: str
) -> None:
    tab = people.tab(site, "" if area == "sign-in" else "Ada")
    addresses = {route: samples.address(route) for route in all_routes()}
    pages: dict[str, tuple[str, str]] = {}
    scripts: set[frozenset[str]] = set()
    for route in routes_of(area):
        with subtests.test(msg=route):
            answer, text = proper_answer(tab, addresses[route])
            # Fragments are checked as parts of the pages that show them.
            if not is_page(text):
                continue
            title, own = proper_head(text)
            place = urlsplit(answer.url).path
            is_of_another = place != addresses[route] and place in addresses.values()
            if not is_of_another and not (ALIKE.match(route) and own in scripts):
                # Many addresses refuse with the same page.
                kind = text if answer.ok else f"{answer.status} {title}"
                pages.setdefault(kind, (route, text))
            scripts.add(own)
    # All of one display together: another size lays the page out again, and other colors paint it again.
    for at, display in enumerate(TWO_DISPLAYS):
        display.show(tab.page)
        # Axe needs as long for what is around the pages as for the pages.
        is_shell_known = False
        for route, text in list(pages.values())[at :: len(TWO_DISPLAYS)]:
            is_in_shell = IS_IN_SHELL.search(text) is not None
            within = "#main, #panel" if is_in_shell and is_shell_known else ""
            is_shell_known |= is_in_shell
            with subtests.test(msg=route), people.screenshots_on_failure(route):
                assert_proper_page(tab, addresses[route], display, within)


def proper_answer(tab: Tab, address: str) -> tuple[APIResponse, str]:
    """The response to GET, and its body without what no two responses have in common."""
    answer = tab.page.request.get(tab.site.url + address)
    text = answer.text()
    # Nothing is shown where only POST is allowed.
    if answer.status == 405:
        assert text == ""
        return answer, text
    assert set(answer.headers["content-security-policy"].split("; ")) >= POLICY
    assert inline_parts(text) == []
    assert text.strip()
    return answer, TOKEN.sub("", text)


def is_page(text: str) -> bool:
    return text.lstrip().lower().startswith("<!doctype html")


def proper_head(text: str) -> tuple[str, frozenset[str]]:
    """The title of a page, which axe wants outside of the page's own part, and the addresses of its scripts."""
    tree = lxml.html.fromstring(text)
    assert tree.get("lang")
    title = (tree.findtext("head/title") or "").strip()
    assert title
    return title, frozenset(map(str, tree.xpath("//script/@src")))


def assert_proper_page(tab: Tab, address: str, display: Display, within: str) -> None:
    tab.forget_errors()
    tab.open(address)

    expect(tab.page.locator("body")).not_to_be_empty()
    open_details(tab.page)
    assert serious_findings(tab.page, [display], within=within) == []
    assert (tab.violations, tab.errors) == ([], [])


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


def test_every_kind_of_part_obeys_the_policy(site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", "/")
    site.fake.script(every_part())

    alice.write("Show everything")

    alice.page.wait_for_url("**/c/*/")
    alice.shows("It broke.").until_ended()
    expect(alice.answer.locator("img")).to_have_count(0)


# Every other page on the phone. The others are looked at in `make test-all`, by the test above.
PATHS = ("/", "conversation", "/settings/servers/")
MAIN_PAGES = list(zip(PATHS, cycle(TWO_DISPLAYS), strict=False))


@pytest.mark.smoke
@pytest.mark.parametrize(("page", "display"), MAIN_PAGES, ids=str)
def test_main_page_has_no_serious_finding(
    site: BrowserSite, tab: OpenTab, page: str, display: Display
) -> None:
    if page == "conversation":
        run = site.send("What is there?")
        site.until_ended(run)
        page = site.room(run)
    ada = tab("Ada", page)

    open_details(ada.page)

    assert serious_findings(ada.page, [display]) == []


MENUS = ("Conversation options", "Model: ", "System prompt and parameters", "account menu")


def test_menus_and_dialogs_have_no_serious_finding(site: BrowserSite, tab: OpenTab) -> None:
    run = site.send("What is there?")
    site.until_ended(run)
    ada = tab("Ada", site.room(run))
    found: list[str] = []

    for label in MENUS:
        ada.page.locator(
            f"#composer [aria-label='{label}'], summary[aria-label='{label}'], summary:has-text('{label}')"
        ).click()
        found += serious_findings(ada.page, [DESKTOP_DARK])
        ada.page.keyboard.press("Escape")
    ada.page.keyboard.press("Control+/")
    expect(ada.page.locator("#keys")).to_be_visible()
    found += serious_findings(ada.page, [PHONE_LIGHT])
    ada.page.keyboard.press("Escape")
    ada.page.locator("#to-people").click()
    expect(ada.page.locator("#share")).to_be_visible()
    found += serious_findings(ada.page, [PHONE_LIGHT])

    assert found == []


FADE = """() => {
  const words = Object.assign(document.createElement("p"), {textContent: "Hardly legible."});
  Object.assign(words.style, {color: "rgb(120, 120, 120)", background: "rgb(128, 128, 128)"});
  document.getElementById("main").prepend(words);
}"""


def test_low_contrast_is_found_on_every_display(tab: OpenTab) -> None:
    ada = tab("Ada", "/settings/")

    ada.page.evaluate(FADE)

    found = serious_findings(ada.page, ALL_DISPLAYS)
    assert [("Hardly legible" in each) for each in found] == [True] * len(ALL_DISPLAYS)
