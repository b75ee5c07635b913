"""What a page may frame is said by its own policy: it is what holds a preview in its place."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import OpenTab
from tests.browser.test_artifacts import POLICY, address_of_artifact, artifact, forget, room_with
from tests.hostile.foreign import Evil, counting
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import Tab

# What the document in the frame says cannot stop it from going elsewhere: only who frames it can.
GOING = """<!doctype html><p>Here.</p><script>
  setTimeout(() => { location = "http://EVIL/frame"; }, 300);
</script>"""
# Longer than that document waits before it goes.
SETTLED_MS = 2000


@pytest.fixture
def evil() -> Iterator[Evil]:
    with counting() as evil:
        yield evil


def as_it_is(policy: str) -> str:
    return policy


def widened(policy: str) -> str:
    return re.sub(r"frame-src [^;]+", "frame-src *", policy)


def removed(policy: str) -> str:
    """Without what stands in for it, too."""
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
    """On the artifact's own page, or beside the room."""
    if place == "/a/":
        tab.open(address_of_artifact(site, tab))
    else:
        tab.reload().until_ended()
        tab.answer.get_by_role("link", name="Open Gauge").click()
    expect(tab.page.frame_locator(".preview-frame").get_by_text("Here.")).to_be_visible()
    tab.button("Run").click()
    expect(tab.page.get_by_role("link", name="Stop")).to_be_visible()


@pytest.mark.parametrize("place", ["/a/", "/c/"], ids=["page", "beside the room"])
def test_a_running_preview_stays_in_its_frame(
    site: BrowserSite, tab: OpenTab, evil: Evil, place: str
) -> None:
    alice = room_with(site, tab, artifact(GOING.replace("EVIL", evil.host)))
    policies = with_policy(alice, place, as_it_is)

    run_preview(site, alice, place)
    alice.until(lambda: alice.violations, "it tried")
    alice.page.wait_for_timeout(SETTLED_MS)

    assert evil.hits == []
    assert "frame-src" in policies[-1]
    alice.page.unroute_all(behavior="ignoreErrors")
    forget(alice)


@pytest.mark.parametrize("change", [widened, removed])
@pytest.mark.parametrize("place", ["/a/", "/c/"], ids=["page", "beside the room"])
def test_with_another_policy_of_the_page_the_same_preview_gets_away(
    site: BrowserSite, tab: OpenTab, evil: Evil, place: str, change: Callable[[str], str]
) -> None:
    alice = room_with(site, tab, artifact(GOING.replace("EVIL", evil.host)))
    with_policy(alice, place, change)

    run_preview(site, alice, place)

    alice.until(lambda: evil.hits == ["GET /frame"], "a foreign page in the frame")
    alice.page.unroute_all(behavior="ignoreErrors")
    forget(alice)
