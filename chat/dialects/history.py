"""Earlier turns as text, for requests that cannot carry them as they were."""

from collections.abc import Iterator, Sequence
from itertools import count

from chat.dialects.base import AssistantTurn, Image, Reply, Turn, UserTurn
from chat.events import (
    JsonObject,
    MessageItem,
    OutputItem,
    RefusalItem,
    Result,
    ToolCallItem,
    is_run_by_client,
)

# A turn without text would be refused. Leaving it out would put two turns of the same role next to
# each other, which many chat templates refuse.
NO_ANSWER = "(no answer)"
DECLINED = "(I would rather not answer.)"


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


def answered_calls(result: Result) -> list[ToolCallItem]:
    """The calls that waited for us and have a result."""
    return [
        item
        for item in result.output
        if isinstance(item, ToolCallItem) and item.output is not None and is_run_by_client(item)
    ]


def exchanges(result: Result) -> Iterator[tuple[list[str], list[ToolCallItem]]]:
    """An answer as texts, each group with the answered calls that follow it; one empty group for an
    answer of nothing. Reasoning and unanswered calls are left out, and calls that an upstream ran
    become text."""
    texts: list[str] = []
    calls: list[ToolCallItem] = []
    is_empty = True
    for item in result.output:
        if isinstance(item, ToolCallItem) and is_run_by_client(item):
            calls += [item] if item.output is not None else []
            continue
        text = item_text(item).strip()
        if text and calls:
            yield texts, calls
            texts, calls, is_empty = [], [], False
        if text:
            texts.append(text)
    if texts or calls or is_empty:
        yield texts, calls


def picture_names(turns: Sequence[Turn]) -> Iterator[tuple[Turn, list[str]]]:
    """Each turn, and a name for each of its pictures, numbered through the conversation."""
    pictures = count(1)
    for turn in turns:
        images = turn.parts_of(Image) if isinstance(turn, UserTurn) else ()
        yield turn, [f"[picture {next(pictures)}]" for _ in images]


def render_turns(turns: Sequence[Turn]) -> str:
    """Earlier turns as one text that a model reads as the beginning of the conversation."""
    blocks = ["The conversation so far:"]
    for turn, names in picture_names(turns):
        if isinstance(turn, AssistantTurn):
            blocks.append(f"Assistant:\n{answer_text(turn.result)}")
            if turn.replies:
                blocks.append(f"User:\n{replies_text(turn)}")
            continue
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
