"""What the demo says, as its files hold it."""

from chat.demo.scenes import Text, load, text


def said_in(scene: str) -> str:
    """The only text of a scene."""
    (step,) = (step for step in load(scene) if isinstance(step, Text) and step.kind != "reasoning")
    return step.text


WELCOME = text("welcome.md")
TABLE = text("table.md")
CODE = text("code.md")
ESSAY = text("essay.md")
REASONING = text("reasoning.md")
REASONED_ANSWER = text("reasoned-answer.md")
REFUSAL = said_in("refuse")
BROKEN = said_in("broken")
TOOL_MISSING = said_in("tool-missing")
THOUGHT = next(step.text for step in load("thought") if isinstance(step, Text))
TOOL_THOUGHT = next(step.text for step in load("tool") if isinstance(step, Text))
