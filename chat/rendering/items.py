"""Every kind of output item and the element that shows it; further choices of an answer."""

from django.utils.safestring import SafeString

from chat.rendering.anatomy import Card, Entry, fill
from chat.rendering.cards import Media
from chat.rendering.parts import Part, Stack
from chat.rendering.texts import Reasoning, Refusal, Text
from chat.rendering.tools import Tool


class Alternative(Entry):
    """Another choice of the same answer, with items of its own; one choice is in sight."""

    def __init__(self, id: str, seq: int, choice: int) -> None:
        super().__init__(id, seq)
        self._choice = choice
        self.items = Stack(f"{id}-items", seq, classes="items")
        self.hold(self.items)

    def frame(self, contents: list[SafeString]) -> str:
        return fill(
            "alternative",
            id=self.id,
            choice=self._choice,
            number=self._choice + 1,
            items=contents[0],
        )

    def conclude(self, seq: int, t: int, status: str) -> None:
        for item in list(self.items.children):
            if isinstance(item, Entry | Card):
                item.conclude(seq, t, status)


class Choice(Part):
    """The button with which a reader takes one of several choices. Never changes."""

    def __init__(self, id: str, seq: int, choice: int) -> None:
        super().__init__(f"{id}-choice{choice}", seq)
        self._group = f"{id}-choice"
        self._choice = choice

    def html(self) -> str:
        return fill(
            "choice",
            id=self.id,
            group=self._group,
            choice=self._choice,
            number=self._choice + 1,
            is_first=self._choice == 0,
        )


ITEM_KINDS: dict[str, type[Text] | type[Tool] | type[Media]] = {
    "message": Text,
    "reasoning": Reasoning,
    "refusal": Refusal,
    "tool_call": Tool,
    "invalid_tool_call": Tool,
    "media": Media,
}
