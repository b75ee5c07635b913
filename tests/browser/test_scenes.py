"""Every scene of the demo in a browser: live, after a reload, and going on where it waits; on a desk
and on a phone, in light and in dark.

With ``SCENE_PICTURES=1`` in the environment, each is kept in each look under
``tests/screenshots/scenes``, for whoever wants to see them.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Locator, expect

from chat.actions.setup import DEMO_SERVERS
from chat.demo.fake import FakeUpstream
from tests.browser.conftest import SCREENSHOTS, People
from tests.support.browser.looks import (
    DESKTOP,
    LOOKS,
    PHONE,
    SHOWN,
    TWO_LOOKS,
    found_now,
    name_of,
    overflow,
    take_on,
    unfold,
)
from tests.support.browser.site import BrowserSite
from tests.support.browser.tab import NORMALISED, Tab
from tests.support.processes.site import ROOT, World, environment

# Scenes that take seconds for a person take a moment here, but still arrive piece by piece.
SPEED = 40.0
TOOLS = ("read_gauge", "open_sluice")

MAKE = f"""
import django
django.setup()
from chat.actions.setup import ensure_demo_upstream
from chat.models import Team, Tool
ensure_demo_upstream()
schema = {{"type": "object", "properties": {{"station": {{"type": "string"}}}}}}
for name in {TOOLS!r}:
    Tool.objects.create(team=Team.objects.get(), name=name, schema=schema)
"""
HAS_PICTURES = bool(os.environ.get("SCENE_PICTURES"))


class SceneSite(BrowserSite):
    """The servers of the demo, as `make run` sets them up, and a team with two tools."""

    def furnish(self) -> None:
        settings = {
            "DEMO_UPSTREAM_URL": self.fake.url,
            "DJANGO_SETTINGS_MODULE": "project.settings",
        }
        subprocess.run(
            [sys.executable, "-c", MAKE],
            cwd=ROOT,
            env={**environment(self.folder), **settings},
            check=True,
        )
        self.tools = [row["public_id"] for row in self.rows("SELECT public_id FROM chat_tool")]

    def ask(self, scene: "Scene") -> UUID:
        """A conversation with one of the demo's models; the run that answers."""
        server = self.value(
            "SELECT public_id FROM chat_upstream WHERE is_demo AND dialect = ?", scene.dialect
        )
        key = uuid.uuid4()
        with self.browser("Alice") as browser:
            answer = browser.post(
                "/c/",
                data={
                    "text": scene.text,
                    "choice": f"{UUID(server).hex}:tributary/{scene.model}",
                    "key": str(key),
                    "team": self.world.team,
                    "visibility": "team",
                    "tools": [str(UUID(tool)) for tool in self.tools] if scene.has_tools else [],
                    **{f"{scene.dialect}-{name}": value for name, value in scene.asks.items()},
                },
            )
        assert answer.status_code == 302, answer.text
        return self._run_of(key)


@pytest.fixture(scope="module")
def scenes(
    seeded: tuple[Path, World], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SceneSite]:
    template, world = seeded
    folder = tmp_path_factory.mktemp("scenes") / "data"
    shutil.copytree(template, folder)
    fake = FakeUpstream.start_in_thread(speed=SPEED)
    site = SceneSite(folder, world, fake)
    with contextlib.ExitStack() as ending:
        ending.callback(fake.stop)
        ending.callback(site.close)
        site.furnish()
        site.start()
        yield site


@pytest.fixture(scope="module")
def owner(browser: Browser, scenes: SceneSite) -> Iterator[People]:
    """Has the one tab in which Alice goes from scene to scene: its styles and scripts are fetched
    and read once, and a browser takes long to make another."""
    owner = People(browser)
    owner.tab(scenes, "Alice")
    yield owner
    owner.close()


@pytest.fixture
def alice(owner: People, request: pytest.FixtureRequest) -> Iterator[Tab]:
    [tab] = owner.tabs
    tab.forget()
    tab.page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
    tab.page.emulate_media(color_scheme="null", reduced_motion="null")
    yield tab
    owner.assert_quiet(request.node)


@dataclass(frozen=True, slots=True)
class Scene:
    """What to ask, how the answer ends, and what of it is then on the page."""

    dialect: str
    model: str
    text: str
    status: str = "completed"
    shows: tuple[str, ...] = ()
    # Elements of the answer: a picture, say.
    has: tuple[str, ...] = ()
    has_tools: bool = False
    # Parameters of the request.
    asks: dict[str, str] = field(default_factory=dict)
    # What is there when it has gone on, where it waits.
    then: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        words = (self.dialect, self.model, self.text, *self.asks)
        return re.sub(r"\W+", "-", "-".join(words)).strip("-")


XEROTIER = [
    Scene("xerotier", "demo-research", "What is known?", shows=("Searching",)),
    Scene("xerotier", "demo-deep-think", "Think it through.", shows=("Part 1 of 4",)),
    Scene("xerotier", "demo-analyst", "Look at it.", shows=("Brief ready",)),
    Scene("xerotier", "demo-artifacts", "Write it down."),
    Scene("xerotier", "demo-artifacts", "Make an html page."),
    Scene("xerotier", "demo-mockup", "Build it, then update it."),
    Scene("xerotier", "demo-question", "Help me.", "waiting", then=("Alice answered",)),
    Scene("xerotier", "demo-question", "Ask me two things.", "waiting"),
    Scene("xerotier", "demo-question", "Give me fields to fill in.", "waiting"),
    Scene("xerotier", "demo-fork", "Go on elsewhere."),
    Scene("xerotier", "demo-research", "refuse", "incomplete"),
    Scene("xerotier", "demo-research", "error", "failed"),
    Scene("xerotier", "demo-research", "preempted", "failed"),
]
SCENES = [
    Scene("lmstudio", "demo-reasoner", "tool", shows=("read_gauge",)),
    Scene("lmstudio", "demo-reasoner", "tool fail", shows=("read_gauge", "open_sluice")),
    Scene("lmstudio", "demo-reasoner", "load think"),
    Scene("lmstudio", "demo-writer", "unicode"),
    Scene("lmstudio", "demo-writer", "long"),
    Scene("lmstudio", "demo-writer", "table", has=("table",)),
    Scene("lmstudio", "demo-writer", "error", "failed"),
    Scene("lmstudio", "demo-writer", "cut", "cut"),
    Scene("openai_chat", "demo-reasoner", "think", shows=("Thought for",)),
    Scene(
        "openai_chat",
        "demo-writer",
        "tool",
        "waiting",
        has_tools=True,
        then=("Alice gave the result",),
    ),
    Scene("openai_chat", "demo-writer", "tool fail", "waiting", has_tools=True),
    Scene("openai_chat", "demo-writer", "refuse", "incomplete"),
    Scene("openai_chat", "demo-writer", "Hello.", has=(".choices label",), asks={"n": "3"}),
    Scene(
        "openai_chat",
        "demo-writer",
        "Hello.",
        has=(".likely",),
        asks={"logprobs": "true", "top_logprobs": "3"},
    ),
    Scene("openai_chat", "demo-openrouter", "think"),
    Scene("openai_chat", "demo-openrouter", "error", "failed"),
    Scene("openai_chat", "demo-vllm", "think"),
    Scene("openai_chat", "demo-deepseek", "think"),
    Scene("openai_chat", "demo-groq", "think"),
    Scene("openai_chat", "demo-mistral", "think"),
    Scene("openai_chat", "demo-llama-cpp", "code", has=("pre code",)),
    Scene("openai_chat", "demo-ollama", "tool", "waiting", has_tools=True),
    Scene("openai_chat", "demo-fireworks", "Hello."),
    Scene("openai_chat", "demo-friendli", "tool"),
    Scene("openai_chat", "demo-friendli", "tool fail"),
    Scene("openai_chat", "demo-gateway", "Hello.", has=("img",)),
    Scene("openai_completions", "demo-base", "code"),
    Scene("openai_completions", "demo-base-thinker", "think", shows=("Thought",)),
    Scene("openai_responses", "demo-agent", "search", has=(".citations",)),
    Scene("openai_responses", "demo-agent", "mcp"),
    Scene("openai_responses", "demo-agent", "mcp fail"),
    Scene("openai_responses", "demo-agent", "python", has=("img",)),
    Scene("openai_responses", "demo-agent", "queue"),
    Scene("openai_responses", "demo-agent", "approve", "waiting", then=("Alice allowed",)),
    Scene("openai_responses", "demo-agent", "draw", has=("img",)),
    Scene("openai_responses", "demo-agent", "tool", "waiting", has_tools=True),
    Scene("openai_responses", "demo-agent", "filter", "incomplete"),
    Scene("openai_responses", "demo-agent-open", "think", shows=("Thought for",)),
    Scene("bitseek", "demo-bitseek", "Hello."),
    Scene("bitseek", "demo-bitseek", "error", "failed"),
    Scene("anthropic_messages", "demo-thinker", "think", shows=("Thought for",)),
    Scene("anthropic_messages", "demo-thinker", "redact"),
    Scene("anthropic_messages", "demo-searcher", "Hello.", shows=("web_search",)),
    Scene("anthropic_messages", "demo-thinker", "pause"),
    Scene("anthropic_messages", "demo-thinker", "tool both", "waiting", has_tools=True),
    Scene("anthropic_messages", "demo-thinker", "refuse", "incomplete"),
    *XEROTIER,
]


def test_every_model_of_the_demo_has_a_scene() -> None:
    offered = {
        (server.dialect, model.removeprefix("tributary/"))
        for server in DEMO_SERVERS
        for model in server.models
    }

    # The coder says what the writer says, faster.
    assert offered - {(scene.dialect, scene.model) for scene in SCENES} <= {
        ("lmstudio", "demo-coder"),
        ("openai_chat", "demo-coder"),
    }


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_scene_is_the_same_live_and_after_a_reload_and_fits_every_look(
    scenes: SceneSite, alice: Tab, scene: Scene
) -> None:
    run = scenes.ask(scene)
    alice.open_room_of(run)

    if scene.status == "waiting":
        expect(alice.page.locator(".ask-open").first).to_be_visible()
        assert faults(alice, f"{scene.name}-waiting", is_for_all=True) == []
        settle(alice)
    alice.until_ended()
    assert scenes.run(run)["status"] == ("incomplete" if is_paused(scene) else scene.status)
    for text in (*scene.shows, *scene.then):
        expect(alice.turns.last).to_contain_text(text)
    for selector in scene.has:
        expect(alice.answers.locator(selector).first).to_be_attached()
    # What no template knows would be there as a generic card.
    expect(alice.page.locator(".answer .generic")).to_have_count(0)
    live = shown(alice)
    alice.reload().until_ended()

    assert shown(alice) == live
    assert faults(alice, scene.name) == []
    if scene.status == "waiting":
        # Nothing says that something waits where everything is settled.
        expect(alice.answers.get_by_text("waiting").filter(visible=True)).to_have_count(0)
    unfold(alice.page)
    assert faults(alice, f"{scene.name}-unfolded", is_for_all=True) == []
    assert alice.complaints == []


def test_on_a_phone_the_figures_of_a_step_leave_its_words_room(
    scenes: SceneSite, alice: Tab
) -> None:
    thinking = Scene("xerotier", "demo-deep-think", "Think it through.")
    alice.open_room_of(scenes.ask(thinking)).until_ended()
    take_on(alice.page, (PHONE, "light"))
    unfold(alice.page)

    retried = alice.answers.locator(".step", has_text="tried 2 times")
    shares = retried.evaluate_all(
        "steps => steps.map(step => step.querySelector('.label').clientWidth / step.clientWidth)"
    )

    assert len(shares) == 1
    assert shares[0] > 0.5


def faults(tab: Tab, name: str, *, is_for_all: bool = False) -> list[str]:
    """What hangs over in any look, as the page stands; ``is_for_all``: and what axe finds in two."""
    found = []
    for look in LOOKS:
        take_on(tab.page, look)
        found += [f"{name_of(look)}: {each}" for each in overflow(tab.page)]
        if is_for_all and look in TWO_LOOKS:
            found += found_now(tab.page, look, within="#turns")
        if HAS_PICTURES:
            picture(tab, f"{name}-{name_of(look)}")
    return found


def is_paused(scene: Scene) -> bool:
    """Its first run ends incomplete, and another goes on by itself."""
    return scene.text == "pause"


def settle(tab: Tab) -> None:
    """Answers whatever the answer waits for, as a person does."""
    while tab.page.locator(".ask-open").count():
        card = tab.page.locator(".ask-open").first
        card_id = card.get_attribute("aria-labelledby")
        fill_in(card)
        expect(tab.page.locator(f".ask-open[aria-labelledby='{card_id}']")).to_have_count(0)


def fill_in(card: Locator) -> None:
    form = card.locator("form.ask-form").first
    output = form.locator("textarea[name=output]")
    if output.count():
        output.fill('{"level_m": 2.31}')
        form.get_by_role("button", name="Give the result").click()
        return
    if form.get_by_role("button", name="Allow").count():
        form.get_by_role("button", name="Allow").click()
        return
    choices = form.locator("label.ask-option, button.ask-option")
    if choices.count():
        choices.first.click()
    for line in form.locator("input[type=text]:visible, textarea:visible").all():
        line.fill("By the mill")
    answer = form.get_by_role("button", name="Answer", exact=True)
    if answer.count():
        answer.click()


def shown(tab: Tab) -> list[str]:
    """What the answers of the page show, run by run."""
    return [str(answer.evaluate(NORMALISED)) for answer in tab.answers.all()]


def picture(tab: Tab, name: str) -> None:
    # What sticks to an edge stands where the page begins.
    tab.page.evaluate("() => scrollTo(0, 0)")
    tab.page.evaluate(SHOWN)
    folder = SCREENSHOTS / "scenes"
    folder.mkdir(parents=True, exist_ok=True)
    tab.page.screenshot(path=folder / f"{name}.png", full_page=True, timeout=10_000)
