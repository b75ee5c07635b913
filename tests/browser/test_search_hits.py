"""A hit opens its turn with the words marked: in old branches, far from the end, folded away, by a panel."""

import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.browser.test_search import MARKS, until_marked
from tests.support.browser import streams
from tests.support.browser.displays import DESKTOP_DARK, overflow, serious_findings
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab
from tests.support.processes.site import ROOT, environment

# A conversation of 2,000 turns whose second one was edited: there are two branches from there on.
MAKE = """
import sys
import django
django.setup()
from chat.models import Conversation, Message, Role, SearchKind, Team, User
from chat.search.sources import index
team, alice = Team.objects.get(), User.objects.get(name="Alice")
room = Conversation.objects.create(team=team, owner=alice, title="Long", visibility="team")
def turn(pk, parent, text):
    return Message(pk=pk, conversation=room, parent_id=parent, role=Role.USER, author=alice, text=text)
first = (Message.objects.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1
old = [turn(first + at, first + at - 1 if at else None, f"Turn {at + 1}." + " Words and words." * 20) for at in range(2000)]
old[1000].text += " Here nests the kingfisher, the **King**fisher of old."
new = [turn(first + 2000 + at, first + 1999 + at if at else first, f"New turn {at + 2}.") for at in range(60)]
Message.objects.bulk_create([*old, *new])
index(SearchKind.MESSAGE, old[1000], new[3])
print(room.public_id)
"""
EXPANSION = "This line is one of many before the heron comes.\n\n"


def make_room(site: BrowserSite) -> str:
    made = subprocess.run(
        [sys.executable, "-c", MAKE],
        cwd=ROOT,
        env={**environment(site.folder), "DJANGO_SETTINGS_MODULE": "project.settings"},
        check=True,
        capture_output=True,
        text=True,
    )
    return f"/c/{made.stdout.strip()}/"


def find_here(tab: Tab, words: str) -> Tab:
    tab.page.get_by_label("Conversation options").click()
    tab.page.get_by_role("link", name="Find in conversation").click()
    field = tab.page.get_by_role("searchbox", name="Find in all messages")
    expect(field).to_be_focused()
    tab.page.keyboard.type(words)
    return tab


def test_hit_in_an_old_branch_of_a_long_conversation(site: BrowserSite, tab: OpenTab) -> None:
    room = make_room(site)
    alice = tab("Alice", room)
    expect(alice.turns.last).to_contain_text("New turn 61.")

    alice.page.keyboard.press("Control+k")
    alice.page.keyboard.type("kingfisher")
    hit = alice.page.locator("#palette-found [data-hit]").first
    expect(hit).to_contain_text("kingfisher")
    alice.page.keyboard.press("Enter")

    alice.page.wait_for_url(f"**{room}earlier/**")
    until_marked(alice, "kingfisher", "Kingfisher")
    expect(alice.turns).to_have_count(20)
    alice.page.get_by_role("link", name="Show later messages").click()
    expect(alice.turns).to_have_count(40)
    expect(alice.turns.last).to_contain_text("Turn 1030.")
    assert alice.page.evaluate(MARKS)["words"] == ["kingfisher", "Kingfisher"]
    assert serious_findings(alice.page, [DESKTOP_DARK]) == []
    alice.page.get_by_role("link", name="Jump to latest").first.click()
    expect(alice.turns.last).to_contain_text("Turn 2000.")


def test_turn_near_the_end_opens_in_the_conversation(site: BrowserSite, tab: OpenTab) -> None:
    room = make_room(site)
    alice = find_here(tab("Alice", room), "kingfisher")
    hits = alice.page.locator("#found-here .hit-link")
    # Of the branch that is not shown.
    expect(hits).to_have_count(1)
    alice.page.locator("#panel input").fill("new")
    expect(alice.page.locator("#found-here mark")).to_have_text(["New"])

    hits.click()

    alice.page.wait_for_url(f"**{room}?mark=new*")
    until_marked(alice, "New")
    expect(alice.turns.last).to_contain_text("New turn 61.")
    expect(alice.composer).to_be_visible()
    # The panel is there again, to go on from hit to hit, also where there is no composer.
    field = alice.page.locator("#panel input")
    expect(field).to_have_value("new")
    field.fill("kingfisher")
    expect(alice.page.locator("#found-here mark")).to_have_text(["kingfisher", "Kingfisher"])
    hits.click()
    alice.page.wait_for_url(f"**{room}earlier/**")
    until_marked(alice, "kingfisher", "Kingfisher")
    expect(field).to_have_value("kingfisher")
    expect(hits).to_have_count(1)
    alice.page.keyboard.press("Escape")
    alice.reload()
    expect(alice.turns.first).to_be_visible()
    expect(alice.page.locator("#panel")).to_be_hidden()
    alice.page.get_by_role("link", name="Find in conversation").click()
    expect(field).to_have_value("")
    assert serious_findings(alice.page, [DESKTOP_DARK]) == []
    alice.page.set_viewport_size({"width": 360, "height": 740})
    assert overflow(alice.page) == []


@pytest.mark.parametrize("is_phone", [False, True], ids=["beside", "over"])
def test_hit_on_the_page_is_shown_beside_the_panel(
    site: BrowserSite, tab: OpenTab, is_phone: bool
) -> None:
    site.fake.script(streams.telling(EXPANSION * 40 + "The **her**on comes. " + EXPANSION * 40))
    run = site.send("Who comes?")
    site.until_ended(run)
    alice = tab("Alice", site.room(run)).until_ended()
    if is_phone:
        alice.page.set_viewport_size({"width": 360, "height": 740})
    find_here(alice, '"heron comes"')
    hits = alice.page.locator("#found-here .hit-link")
    expect(hits).to_have_count(1)
    assert overflow(alice.page) == []

    hits.click()

    until_marked(alice, *["heron comes"] * 81)
    expect(alice.page.locator("#panel")).to_be_visible(visible=not is_phone)


def test_thinking_that_has_the_words_is_opened(site: BrowserSite, tab: OpenTab) -> None:
    thought = EXPANSION * 60 + "The bittern booms."
    parts = [
        streams.open_item("reasoning"),
        streams.think(thought),
        streams.close_item("reasoning"),
    ]
    words = [streams.open_item("message"), streams.say("It does."), streams.close_item("message")]
    site.fake.script(streams.scripted(streams.BEGINNING, parts, words, streams.end()))
    run = site.send("Who booms?")
    site.until_ended(run)
    alice = tab("Alice", "/c/search/?q=bittern")

    alice.page.locator(".hit[data-kind=reasoning] a").click()

    expect(alice.page.locator("details.reasoning")).to_have_attribute("open", "")
    until_marked(alice, "bittern")


def test_long_message_that_has_the_words_is_unfolded(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("Yes."))
    run = site.send(EXPANSION * 60 + "The curlew calls.")
    site.until_ended(run)
    alice = tab("Alice", "/c/search/?q=curlew")

    alice.page.locator(".hit[data-kind=message] a").click()

    until_marked(alice, "curlew")


def test_nothing_is_marked_where_the_browser_cannot(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("The dipper dips."))
    run = site.send("Who dips?")
    site.until_ended(run)
    alice = tab("Alice")
    alice.add_init_script("delete CSS.highlights; delete self.Highlight;")
    alice.open("/c/search/?q=dipper")

    alice.page.locator(".hit-link").click()

    expect(alice.answer).to_be_in_viewport()
    expect(alice.answer).to_contain_text("The dipper dips.")
