"""The demo's servers, which play a scene for each request that they know."""

import re
import subprocess
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from tests.support.browser.site import BrowserSite
from tests.support.processes.site import ROOT, environment

# Scenes that take seconds for a person take a moment here, but still arrive piece by piece.
SPEED = 40.0
# A page shows 20 messages: a question and an answer of each.
ON_ONE_PAGE = 10
TOOLS = ("find_invoices", "send_reminder")

MAKE = f"""
import django
django.setup()
from chat.servers.actions.demo import ensure_demo_upstream
from chat.models import Team, Tool
ensure_demo_upstream()
schema = {{"type": "object", "properties": {{"station": {{"type": "string"}}}}}}
for name in {TOOLS!r}:
    Tool.objects.create(team=Team.objects.get(), name=name, schema=schema)
"""

# The tables whose rows a page shows with their conversation.
IN_CONVERSATION = (
    *("chat_message", "chat_run", "chat_question", "chat_artifact", "chat_mockup"),
    "chat_storedfile",
)


@dataclass(frozen=True, slots=True)
class Scene:
    """What to ask, how the answer ends, and what of it is then on the page."""

    dialect: str
    model: str
    text: str
    status: str = "completed"
    shows: tuple[str, ...] = ()
    # Selectors of elements in the answer.
    has: tuple[str, ...] = ()
    has_tools: bool = False
    # Parameters of the request.
    asks: dict[str, str] = field(default_factory=dict)
    # What is there when its questions have been answered.
    then: tuple[str, ...] = ()
    # Pages show all of its parts in other scenes, too.
    is_alike: bool = False

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
    Scene("xerotier", "demo-question", "Help me.", "waiting", then=("Answered by Alice",)),
    Scene("xerotier", "demo-question", "Ask me two things.", "waiting"),
    Scene("xerotier", "demo-question", "Give me fields to fill in.", "waiting"),
    Scene("xerotier", "demo-fork", "Go on elsewhere."),
    Scene("xerotier", "demo-research", "refuse", "incomplete", is_alike=True),
    Scene("xerotier", "demo-research", "error", "failed", is_alike=True),
    Scene("xerotier", "demo-research", "preempted", "failed"),
]
SCENES = [
    Scene("lmstudio", "demo-reasoner", "tool", shows=("find_invoices",), is_alike=True),
    Scene("lmstudio", "demo-reasoner", "tool fail", shows=("find_invoices", "send_reminder")),
    Scene("lmstudio", "demo-reasoner", "load think"),
    Scene("lmstudio", "demo-writer", "unicode"),
    Scene("lmstudio", "demo-writer", "long", is_alike=True),
    Scene("lmstudio", "demo-writer", "table", has=("table",)),
    Scene("lmstudio", "demo-writer", "error", "failed", is_alike=True),
    Scene("lmstudio", "demo-writer", "cut", "cut"),
    Scene("openai_chat", "demo-reasoner", "think", shows=("218 words",), is_alike=True),
    Scene(
        "openai_chat",
        "demo-writer",
        "tool",
        "waiting",
        has_tools=True,
        then=("Result submitted by Alice",),
    ),
    Scene("openai_chat", "demo-writer", "tool fail", "waiting", has_tools=True, is_alike=True),
    Scene("openai_chat", "demo-writer", "refuse", "incomplete"),
    Scene("openai_chat", "demo-writer", "Hello.", has=(".choices label",), asks={"n": "3"}),
    Scene(
        "openai_chat",
        "demo-writer",
        "Hello.",
        has=(".likely",),
        asks={"logprobs": "true", "top_logprobs": "3"},
    ),
    Scene("openai_chat", "demo-gateway", "Hello.", has=("img",)),
    Scene("openai_completions", "demo-base", "code"),
    Scene("openai_completions", "demo-base", "think", shows=("218 words",), is_alike=True),
    Scene("openai_responses", "demo-agent", "search", has=(".citations",)),
    Scene("openai_responses", "demo-agent", "mcp", is_alike=True),
    Scene("openai_responses", "demo-agent", "mcp fail"),
    Scene("openai_responses", "demo-agent", "python", has=("img",)),
    Scene("openai_responses", "demo-agent", "queue"),
    Scene("openai_responses", "demo-agent", "approve", "waiting", then=("Approved by Alice",)),
    Scene("openai_responses", "demo-agent", "draw", has=("img",)),
    Scene("openai_responses", "demo-agent", "tool", "waiting", has_tools=True, is_alike=True),
    Scene("openai_responses", "demo-agent", "filter", "incomplete", is_alike=True),
    Scene("openai_responses", "demo-agent", "think", shows=("218 words",), is_alike=True),
    Scene("bitseek", "demo-bitseek", "Hello."),
    Scene("bitseek", "demo-bitseek", "error", "failed", is_alike=True),
    Scene("anthropic_messages", "demo-thinker", "think", shows=("218 words",)),
    Scene("anthropic_messages", "demo-thinker", "redact"),
    Scene("anthropic_messages", "demo-searcher", "Hello.", shows=("web_search",)),
    Scene("anthropic_messages", "demo-thinker", "pause"),
    Scene(
        "anthropic_messages", "demo-thinker", "tool both", "waiting", has_tools=True, is_alike=True
    ),
    Scene("anthropic_messages", "demo-thinker", "refuse", "incomplete", is_alike=True),
    *XEROTIER,
]


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

    def ask(self, scene: Scene) -> UUID:
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

    def join(self, runs: Iterable[UUID]) -> str:
        """Puts the conversations of these runs one below the other; the address of the one that
        then holds them all."""
        first, *others = (self.run(run)["conversation_id"] for run in runs)
        for room in others:
            last = self.value("SELECT max(id) FROM chat_message WHERE conversation_id = ?", first)
            self.rows(
                "UPDATE chat_message SET parent_id = ? WHERE conversation_id = ? AND parent_id IS NULL",
                *(last, room),
            )
            for table in IN_CONVERSATION:
                self.rows(
                    f"UPDATE {table} SET conversation_id = ? WHERE conversation_id = ?", first, room
                )
        room = self.value("SELECT public_id FROM chat_conversation WHERE id = ?", first)
        return f"/c/{UUID(room)}/"
