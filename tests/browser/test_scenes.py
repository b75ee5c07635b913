"""The scenes of the demo in a browser: live, reloaded, and answered where it waits. tests/demo plays all
of them, and `make screenshots` looks at them on every display.
"""

from dataclasses import dataclass
from itertools import islice
from uuid import UUID

import pytest
from playwright.sync_api import Locator, expect

from chat.demo.models import DEMO_SERVERS
from tests.support.browser.displays import (
    DESKTOP_DARK,
    DESKTOP_LIGHT,
    PHONE_LIGHT,
    open_details,
    overflow,
    serious_findings,
)
from tests.support.browser.people import People
from tests.support.browser.scenes import ON_ONE_PAGE, SCENES, Scene, SceneSite
from tests.support.browser.tab import NORMALISED, Tab

KEEP_ONLY_TURNS = """() => {
  for (let kept = document.getElementById("turns"); kept !== document.body; kept = kept.parentElement) {
    for (const other of kept.parentElement.children) {
      if (other !== kept && other.localName !== "script") other.replaceChildren();
    }
  }
}"""
DIALECTS = sorted({scene.dialect for scene in SCENES})


def test_every_demo_model_has_a_scene() -> None:
    offered = {
        (server.dialect, model.id.removeprefix("tributary/"))
        for server in DEMO_SERVERS
        for model in server.models
    }

    # The coder plays the scenes of the writer, faster.
    assert offered - {(scene.dialect, scene.model) for scene in SCENES} <= {
        ("lmstudio", "demo-coder"),
        ("openai_chat", "demo-coder"),
    }


@dataclass(frozen=True)
class Played:
    """A scene that was played to its end while a page showed it."""

    scene: Scene
    run: UUID
    # What the page showed of its answers, run by run.
    live: list[str]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_scenes_are_the_same_live_and_reloaded(
    scene_site: SceneSite, people: People, subtests: pytest.Subtests, dialect: str
) -> None:
    alice = people.tab(scene_site, "Alice")
    scenes = [each for each in SCENES if each.dialect == dialect and not each.is_alike]
    for number, start in enumerate(range(0, len(scenes), ON_ONE_PAGE), start=1):
        played: list[Played] = []
        for scene in scenes[start : start + ON_ONE_PAGE]:
            with subtests.test(msg=scene.name), people.screenshots_on_failure(scene.name):
                played.append(play(scene_site, alice, scene))
        name = f"{dialect}-{number}"
        with subtests.test(msg=name), people.screenshots_on_failure(name):
            assert_same_on_one_page(scene_site, alice, played)


def play(site: SceneSite, alice: Tab, scene: Scene) -> Played:
    alice.console_errors.clear()
    DESKTOP_LIGHT.show(alice.page)
    run = site.ask(scene)
    alice.open_room_of(run)

    if scene.status == "waiting":
        expect(alice.page.locator(".ask-open").first).to_be_visible()
        assert overflow(alice.page) == []
        answer_questions(alice)
    alice.until_ended()
    assert site.run(run)["status"] == ("incomplete" if is_paused(scene) else scene.status)
    for text in (*scene.shows, *scene.then):
        expect(alice.turns.last).to_contain_text(text)
    for selector in scene.has:
        expect(alice.answers.locator(selector).first).to_be_attached()
    # An unknown part would be shown as a generic card.
    expect(alice.page.locator(".answer .generic")).to_have_count(0)
    if scene.status == "waiting":
        expect(alice.answers.get_by_text("waiting").filter(visible=True)).to_have_count(0)
    assert alice.console_errors == []
    return Played(scene, run, shown(alice))


def assert_same_on_one_page(site: SceneSite, alice: Tab, played: list[Played]) -> None:
    """Loads what was seen live again, all on one page: a page for each scene, laid out and checked,
    would take three times as long."""
    alice.console_errors.clear()
    DESKTOP_LIGHT.show(alice.page)
    alice.open(site.join([each.run for each in played])).until_ended()

    found = iter(shown(alice))
    for each in played:
        assert list(islice(found, len(each.live))) == each.live, each.scene.name
    assert list(found) == []
    # In each state on both sizes; colors lay nothing out.
    assert overflow(alice.page) == []
    open_details(alice.page)
    assert overflow(alice.page) == []
    PHONE_LIGHT.show(alice.page)
    assert overflow(alice.page) == []
    assert alice.console_errors == []
    # Axe reads the whole page, and takes half the time where there is nothing but the answers.
    alice.page.evaluate(KEEP_ONLY_TURNS)
    assert serious_findings(alice.page, [DESKTOP_DARK], within="#turns") == []


def test_phone_figures_leave_room_for_the_label(scene_site: SceneSite, people: People) -> None:
    thinking = Scene("xerotier", "demo-deep-think", "Think it through.")
    alice = people.tab(scene_site, "Alice", scene_site.room(scene_site.ask(thinking)))
    alice.until_ended()
    PHONE_LIGHT.show(alice.page)
    open_details(alice.page)

    retried = alice.answers.locator(".step", has_text="2 attempts")
    shares = retried.evaluate_all(
        "steps => steps.map(step => step.querySelector('.label').clientWidth / step.clientWidth)"
    )

    assert len(shares) == 1
    assert shares[0] > 0.5


def is_paused(scene: Scene) -> bool:
    """Its first run ends incomplete, and another goes on by itself."""
    return scene.text == "pause"


def answer_questions(tab: Tab) -> None:
    """Answers whatever the answer waits for, as a person does."""
    while tab.page.locator(".ask-open").count():
        card = tab.page.locator(".ask-open").first
        card_id = card.get_attribute("aria-labelledby")
        answer_question(card)
        expect(tab.page.locator(f".ask-open[aria-labelledby='{card_id}']")).to_have_count(0)


def answer_question(card: Locator) -> None:
    form = card.locator("form.ask-form").first
    output = form.locator("textarea[name=output]")
    if output.count():
        output.fill('{"level_m": 2.31}')
        form.get_by_role("button", name="Submit result").click()
        return
    if form.get_by_role("button", name="Approve").count():
        form.get_by_role("button", name="Approve").click()
        return
    choices = form.locator("label.ask-option, button.ask-option")
    if choices.count():
        choices.first.click()
    for line in form.locator("input[type=text]:visible, textarea:visible").all():
        line.fill("By the mill")
    answer = form.get_by_role("button", name="Submit", exact=True)
    if answer.count():
        answer.click()


def shown(tab: Tab) -> list[str]:
    """What the answers of the page show, run by run."""
    return [str(answer.evaluate(NORMALISED)) for answer in tab.answers.all()]
