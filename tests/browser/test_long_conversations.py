"""A conversation of thousands of turns shows its last ones; the others load on scrolling."""

import subprocess
import sys

import pytest
from playwright.sync_api import Request, expect

from chat.conversations.transcript import PAGE_TURNS
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.processes.site import ROOT, environment

MAKE = """
import sys, uuid
import django
django.setup()
from chat.models import Conversation, Message, Role, Team, User
team, alice = Team.objects.get(), User.objects.get(name="Alice")
room = Conversation.objects.create(team=team, owner=alice, title="Long", visibility="team")
count = int(sys.argv[1])
first = (Message.objects.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1
Message.objects.bulk_create(
    Message(
        pk=first + at, conversation=room, parent_id=first + at - 1 if at else None, role=Role.USER,
        author=alice, text=f"Turn {at + 1}." + " Words and words." * 40,
    )
    for at in range(count)
)
print(room.public_id)
"""
NODES = "() => document.querySelectorAll('#transcript *').length"
# The first visible turn, and its distance from the top of the window.
READING = """() => {
  const turn = [...document.querySelectorAll("#turns > .turn")].find(each => each.getBoundingClientRect().bottom > 60);
  return [turn.id, Math.round(turn.getBoundingClientRect().top)];
}"""
TOP_OF = "id => Math.round(document.getElementById(id).getBoundingClientRect().top)"


def room_of(site: BrowserSite, turns: int) -> str:
    made = subprocess.run(
        [sys.executable, "-c", MAKE, str(turns)],
        cwd=ROOT,
        env={**environment(site.folder), "DJANGO_SETTINGS_MODULE": "project.settings"},
        check=True,
        capture_output=True,
        text=True,
    )
    return f"/c/{made.stdout.strip()}/"


def test_two_thousand_turns_load_as_few_as_twenty(site: BrowserSite, tab: OpenTab) -> None:
    short = tab("Alice", room_of(site, 20))
    expect(short.turns).to_have_count(PAGE_TURNS)
    long = tab("Alice", room_of(site, 2_000))
    expect(long.turns).to_have_count(PAGE_TURNS)
    link = long.page.locator("#earlier *").count()

    assert long.page.evaluate(NODES) - link == short.page.evaluate(NODES)
    # Nothing more is loaded unasked.
    long.page.wait_for_timeout(300)
    expect(long.turns).to_have_count(PAGE_TURNS)


def test_earlier_turns_load_without_a_jump(site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", room_of(site, 50))
    alice.until(lambda: alice.page.evaluate("() => scrollY") > 500, "the page at its end")
    alice.hold_answer("**/earlier/**")
    asked: list[Request] = []
    alice.page.on("request", lambda sent: asked.append(sent) if "/earlier/" in sent.url else None)
    alice.page.mouse.move(700, 300)
    left = alice.page.evaluate("() => scrollY")

    def scrolls_up() -> bool:
        nonlocal left
        # The page handles each turn of the wheel before the next: the wheel is never ahead of the request.
        if not asked and abs(alice.page.evaluate("() => scrollY") - left) <= 1:
            alice.page.mouse.wheel(0, -200)
            left -= 200
        return bool(asked)

    alice.until(scrolls_up, "earlier turns are asked for")
    alice.until(lambda: abs(alice.page.evaluate("() => scrollY") - left) <= 1, "it rests")
    alice.until(lambda: alice.is_holding, "their answer has come")
    # There is still something to read above.
    assert left > 200
    reading, top = alice.page.evaluate(READING)
    alice.release()
    expect(alice.turns).to_have_count(2 * PAGE_TURNS)

    assert abs(alice.page.evaluate(TOP_OF, reading) - top) <= 2


def test_scrolling_leads_to_the_first_turn(site: BrowserSite, tab: OpenTab) -> None:
    alice = tab("Alice", room_of(site, 50))
    alice.page.mouse.move(700, 300)
    beginning = alice.page.get_by_text("Turn 1. Words")

    def scrolls_up() -> bool:
        # As often as it takes until the earlier turns have been loaded.
        alice.page.mouse.wheel(0, -1_500)
        return bool(beginning.count()) and bool(alice.page.evaluate("() => scrollY === 0"))

    alice.until(scrolls_up, "the top of the first turn")
    expect(alice.turns).to_have_count(50)
    expect(alice.page.locator("#earlier a")).to_have_count(0)
    expect(beginning).to_be_in_viewport()


@pytest.mark.parametrize("way", ["link", "key"])
def test_earlier_turns_load_by_link_and_key(site: BrowserSite, tab: OpenTab, way: str) -> None:
    alice = tab("Alice", room_of(site, 30))
    first = alice.turns.first
    alice.page.locator("#earlier a").focus()
    if way == "key":
        first.evaluate("turn => { turn.tabIndex = -1; turn.focus(); }")
        alice.page.keyboard.press("k")
    else:
        alice.page.keyboard.press("Enter")

    expect(alice.turns).to_have_count(30)
