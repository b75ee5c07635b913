"""Earlier turns as text, for requests that cannot carry them as they were."""

from collections.abc import Sequence

from chat.dialects.base import AssistantTurn, Prompt, Reply, Turn, UserTurn
from chat.events import (
    JsonObject,
    MessageItem,
    OutputItem,
    RefusalItem,
    Result,
    ToolCallItem,
)
from chat.events.translation import gettext_noop

# A turn without text would be refused. Leaving it out would put two turns of the same role next to
# each other, which many chat templates refuse.
NO_ANSWER = "(no answer)"
TOOLS_LEFT_OUT = gettext_noop("The tools were left out: this API type doesn’t support them.")
PICTURES_LEFT_OUT = gettext_noop("The images were left out: this API type accepts only text.")
DECLINED = "(I would rather not answer.)"


def is_run_by_client(call: ToolCallItem) -> bool:
    """Whether the call waited for us; calls that an upstream ran are part of its own turn."""
    return call.provider_info is None or call.provider_info.type in ("function", "custom")


def item_text(item: OutputItem) -> str:
    """The text that another model gets of an item. Reasoning is not passed to other models."""
    if isinstance(item, MessageItem | RefusalItem):
        return item.content
    if isinstance(item, ToolCallItem) and item.output is not None:
        return f"[Result of {item.tool}: {item.output}]"
    return ""


def answer_text(result: Result) -> str:
    texts = (item_text(item).strip() for item in result.output)
    return "\n\n".join(text for text in texts if text) or NO_ANSWER


def render_turns(turns: Sequence[Turn]) -> str:
    """Earlier turns as one text that a model reads as the beginning of the conversation."""
    blocks = ["The conversation so far:"]
    picture = 0
    for turn in turns:
        if isinstance(turn, AssistantTurn):
            blocks.append(f"Assistant:\n{answer_text(turn.result)}")
            if turn.replies:
                blocks.append(f"User:\n{replies_text(turn)}")
            continue
        names = [f"[picture {picture + number}]" for number in range(1, len(turn.images) + 1)]
        picture += len(names)
        blocks.append("\n".join([f"User:\n{turn.text}", *names]))
    blocks.append("The user's next message:")
    return "\n\n".join(blocks)


# --- replies to questions, as text -------------------------------------------------------


def replies_text(turn: AssistantTurn) -> str:
    """A user's replies to the questions of an answer, for a server that did not ask them."""
    asks = {ask.get("ask_id"): ask for ask in turn.result.ext.asks}
    return "\n\n".join(_reply_text(reply, asks.get(reply.ask_id, {})) for reply in turn.replies)


def _reply_text(reply: Reply, ask: JsonObject) -> str:
    fields = [f"{name}: {value}" for name, value in reply.fields.items()]
    said = "\n".join(text for text in (*reply.selected, *fields, reply.text) if text)
    if reply.is_declined or not said:
        said = DECLINED
    question = ask.get("question")
    return f"To your question “{question}”:\n{said}" if question else said


# --- what a request cannot contain -----------------------------------------------------------


def left_out(prompt: Prompt, *, takes_tools: bool, takes_images: bool) -> list[str]:
    """A sentence for each part of the prompt that this kind of request cannot contain."""
    notes = []
    if prompt.tools and not takes_tools:
        notes.append(TOOLS_LEFT_OUT)
    has_images = any(isinstance(turn, UserTurn) and turn.images for turn in prompt.turns)
    if has_images and not takes_images:
        notes.append(PICTURES_LEFT_OUT)
    return notes
