"""The interface in a pseudo-language: nothing is untranslated, and nothing breaks where it is longer."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import streams
from tests.support.browser.displays import DESKTOP_LIGHT, PHONE_LIGHT, open_details, overflow
from tests.support.browser.people import People
from tests.support.browser.site import BrowserSite
from tests.support.processes.site import World, site_from
from tests.support.selection import sample
from tests.translation.pseudo import LANGUAGE, write_catalogues

PAGES = (
    *("/", "room", "details", "/c/search/?q=river", "/inbox/", "/people/", "/people/teams/"),
    *(
        "/projects/",
        "/projects/new/",
        "/people/tools/",
        "/people/accounts/",
        "/settings/",
        "/settings/tokens/",
    ),
    *("/settings/streaming/", "/settings/servers/", "/settings/servers/add/"),
    *("/settings/servers/add/?kind=other", "/accounts/password/change/", "/no/such/page/"),
)
# Words in plain letters that are no message: in ⟦…⟧ they are values, in these elements content.
PLAIN_WORDS = """names => {
  const content = "script, style, template, code, pre, kbd, time, option, bdi, [dir=auto], .avatar, .code, [data-name]";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  // A value may be a message itself.
  const isPlain = words => {
    for (let before = null; before !== words;) {
      before = words;
      words = words.replace(/⟦[^⟦⟧]*⟧/g, "");
    }
    for (const name of names) words = words.replaceAll(name, "");
    return /[a-z]{3,}/i.test(words);
  };
  while (walker.nextNode()) {
    const { parentElement, textContent } = walker.currentNode;
    if (parentElement.closest(content) || !parentElement.getClientRects().length) continue;
    if (isPlain(textContent)) found.push(textContent.trim());
  }
  for (const element of document.querySelectorAll("[title], [aria-label], [placeholder]"))
    for (const name of ["title", "aria-label", "placeholder"]) {
      const words = element.getAttribute(name) ?? "";
      if (!element.closest(content) && isPlain(words)) found.push(`${name}: ${words}`);
    }
  return found;
}"""


@pytest.fixture(scope="module")
def pseudo_site(
    seeded: tuple[Path, World], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrowserSite]:
    template, world = seeded
    folder = tmp_path_factory.mktemp("pseudo") / "data"
    shutil.copytree(template, folder)
    write_catalogues(folder)
    with site_from(template, folder, world, kind=BrowserSite) as site:
        site.start(INTERFACE_LANGUAGE=LANGUAGE)
        yield site


@pytest.mark.smoke
@pytest.mark.needs("gettext")
def test_every_page_is_translated_and_keeps_its_width(
    pseudo_site: BrowserSite, people: People, subtests: pytest.Subtests
) -> None:
    pseudo_site.fake.script(streams.telling("First."))
    run = pseudo_site.send("Tell us.")
    pseudo_site.until_ended(run)
    tab = people.tab(pseudo_site, "Ada", "/")
    names = [
        *("Tributary", "Tell us.", "Test", "Ctrl", "Shift", "nginx", "Caddy", "Apache"),
        *[each["email"] for each in pseudo_site.rows("SELECT email FROM chat_user")],
        *[
            each["name"]
            for table in ("chat_user", "chat_team", "chat_upstream")
            for each in pseudo_site.rows(f"SELECT name FROM {table}")
        ],
    ]
    for page in sample(PAGES, 5):
        path = {"room": pseudo_site.room(run), "details": f"/r/{run}/details/"}.get(page, page)
        with subtests.test(msg=page):
            tab.page.goto(pseudo_site.url + path)
            open_details(tab.page)

            assert tab.page.evaluate(PLAIN_WORDS, names) == []
            for display in (DESKTOP_LIGHT, PHONE_LIGHT):
                display.show(tab.page)
                assert overflow(tab.page) == []
