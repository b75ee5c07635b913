"""Every scene of the demo through our own dialects: it ends as its scene says, and every event is known."""

from __future__ import annotations

import pytest

from chat.demo import scenes
from chat.demo.models import DEMO_SERVERS
from chat.dialects.base import ToolDefinition
from chat.events import ToolCallItem
from chat.result import plain_text
from tests.demo.answers import answer_to, make_prompt
from tests.support.browser.scenes import SCENES, TOOLS, Scene
from tests.support.upstream.fake import FakeUpstream

SCHEMA = {"type": "object", "properties": {"station": {"type": "string"}}}
# What a suggestion of the interface, and what a newcomer may write, gets from every server.
COMMON = {
    "Hello.": "completed",
    "help": "completed",
    "code": "completed",
    "table": "completed",
    "unicode": "completed",
    "think": "completed",
    "slow": "completed",
    "tool": "completed",
    "error": "failed",
    "cut": "cut",
}
# The model of Xerotier chooses its scene.
CHOSEN_BY_WORDS = [server for server in DEMO_SERVERS if server.dialect != "xerotier"]
ROWS = [
    *SCENES,
    *(
        Scene(server.dialect, model.id.removeprefix("tributary/"), text, status)
        for server in CHOSEN_BY_WORDS
        for model in server.models[:1]
        for text, status in COMMON.items()
    ),
]


async def test_scene_ends_as_it_says(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    tools = tuple(ToolDefinition(name=name, description="", schema=SCHEMA) for name in TOOLS)
    for row in ROWS:
        with subtests.test(row.name):
            prompt = make_prompt(
                row.text,
                model=f"tributary/{row.model}",
                parameters={name: _value(text) for name, text in row.asks.items()},
                tools=tools if row.has_tools else (),
            )

            found = await answer_to(fake, row.dialect, prompt)

            status = "incomplete" if row.text == "pause" else row.status
            assert found.ext.status == status
            assert found.ext.vendor == []
            assert found.output


def _value(text: str) -> object:
    return True if text == "true" else int(text)


async def test_first_answer_says_what_the_demo_is(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for server in CHOSEN_BY_WORDS:
        with subtests.test(server.dialect):
            prompt = make_prompt("How do tides work?", model=server.models[0].id)

            text = plain_text(await answer_to(fake, server.dialect, prompt))

            assert scenes.text("welcome.md").strip() in text


LEVEL = ToolDefinition(
    name="river_level",
    schema={
        "type": "object",
        "properties": {"station": {"type": "string", "enum": ["Basel", "Maxau"]}},
        "required": ["station"],
    },
)
GATE = ToolDefinition(name="set_gate", schema={"type": "object", "properties": {}})


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic_messages"])
async def test_tool_is_called_by_the_words_of_its_name(fake: FakeUpstream, dialect: str) -> None:
    model = next(each for each in DEMO_SERVERS if each.dialect == dialect).models[0].id

    async def calls(text: str, *tools: ToolDefinition) -> list[tuple[str, object]]:
        found = await answer_to(fake, dialect, make_prompt(text, model=model, tools=tools))
        items = [item for item in found.output if isinstance(item, ToolCallItem)]
        return [(item.tool, item.arguments) for item in items]

    asked = "How high is the level of the river at Maxau?"
    assert await calls(asked, GATE, LEVEL) == [("river_level", {"station": "Maxau"})]
    assert await calls("What is a river?", GATE, LEVEL) == []
    assert await calls(asked, GATE) == []
