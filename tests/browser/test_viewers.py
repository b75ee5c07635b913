"""Several people watch one answer and see the same, whenever they came."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser import streams
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.upstream.script import Script

MIDDLE, LATE = gate("middle"), gate("late")

CODE = "```python\ndef flow(rate: float) -> str:\n"
MORE_CODE = '    return f"<{rate}>"\n```\n\n'


def markdown() -> Script:
    return streams.telling(
        "# Rivers\n\nA *river* rises in the **hills**, see [maps](https://example.org/).\n\n- one\n",
        "- two\n\n",
        CODE,
        MIDDLE,
        MORE_CODE,
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted ",
        LATE,
        "\n\nThe end of it.",
    )


def tool_calls() -> Script:
    arguments = {"station": "Mill Bridge", "hours": 12}
    return streams.scripted(
        streams.BEGINNING,
        streams.open_item("message"),
        streams.say("I look at the gauge."),
        streams.close_item("message"),
        streams.call("read_gauge", arguments),
        MIDDLE,
        streams.succeed("read_gauge", arguments, '{"level_m": 2.31}'),
        streams.call("read_gauge", {"station": "Ford"}),
        LATE,
        streams.succeed("read_gauge", {"station": "Ford"}, "plain text"),
        streams.open_item("message"),
        streams.say("It rises. The end of it."),
        streams.close_item("message"),
        streams.end(),
    )


# Each with the last words before its two gates. Reasoning, errors and all else that the demo's servers
# can send are compared with a reload by test_scenes.
SCENES = [(markdown, "def flow", "quoted"), (tool_calls, "Mill Bridge", "Ford")]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("scene", "in_the_middle", "late"),
    [pytest.param(*scene, id=scene[0].__name__) for scene in SCENES],
)
def test_viewers_and_a_reload_show_the_same(
    site: BrowserSite, tab: OpenTab, scene: Callable[[], Script], in_the_middle: str, late: str
) -> None:
    site.fake.script(scene())
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run))
    bob = tab("Bob", site.room(run))
    for viewer in (alice, bob):
        viewer.shows(in_the_middle)
    reloaded = tab("Alice", site.room(run))
    assert alice.normalized() == bob.normalized() == reloaded.normalized()

    site.fake.release("middle")
    bob.shows(late).reload()
    site.fake.release("late")
    for viewer in (alice, bob, reloaded):
        viewer.until_ended()

    after = tab("Bob", site.room(run)).normalized()
    assert [viewer.normalized() for viewer in (alice, bob, reloaded)] == [after] * 3
    expect(alice.answer).to_contain_text("The end of it.")


# Loses the next frame with this row; the websocket stays open.
LOSE = """document.addEventListener("htmx:ws:before:message:incoming", function lose(event) {
  if (!event.detail.message.data.includes("level 2")) return;
  document.removeEventListener("htmx:ws:before:message:incoming", lose, true);
  window.hasLost = true;
  event.preventDefault();
}, true);"""


def test_page_joins_lags_and_resumes_inside_a_block(site: BrowserSite, tab: OpenTab) -> None:
    rows = (f"| *weir* 🌊 {n} | **level {n}** |\n" for n in range(5))
    steps = [step for n, row in enumerate(rows) for step in (row, gate(f"row-{n}"))]
    site.fake.script(streams.telling("| a | b |\n|---|---|\n", *steps, "\nThe end of it."))
    run = site.send("Tell us.")
    alice = tab("Alice", site.room(run)).shows("level 0")
    bob = tab("Bob", site.room(run)).shows("level 0")

    site.fake.release("row-0")
    bob.shows("level 1").page.evaluate(LOSE)
    site.fake.release("row-1")
    bob.page.wait_for_function("() => window.hasLost")
    site.fake.release("row-2")
    bob.shows("level 2").shows("level 3").reload()
    site.fake.release("row-3")
    late = tab("Alice", site.room(run)).shows("level 4")
    site.fake.release("row-4")
    for viewer in (alice, bob, late):
        viewer.until_ended()

    # Row by row, so that what stays of the table was not sent again.
    kept = [patch for one in alice.messages for patch in one.get("content", ()) if len(patch) == 6]
    assert kept
    after = tab("Bob", site.room(run)).normalized()
    assert [viewer.normalized() for viewer in (alice, bob, late)] == [after] * 3
