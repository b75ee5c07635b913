"""The request of a tool to people in the middle of a call, as a part of the call's card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat.models import InputSource, InputStatus, ToolInput
from chat.models.conversation import name_of as person_of
from chat.questions.input_forms import InputForm, labelled
from chat.rendering.approvals import ApprovalCall
from chat.rendering.hidden_letters import Part, visible_parts
from chat.rendering.safety import host_of, is_safe_link, reveal

# Elements of an address, of which each run of hidden characters is one.
MOST_ADDRESS_PARTS = 40

_OUTCOMES: dict[str, str | Promise] = {
    InputStatus.ACCEPTED: gettext_lazy("Answered by %(person)s"),
    InputStatus.DECLINED: gettext_lazy("Declined by %(person)s"),
    InputStatus.CANCELED: gettext_lazy("Dismissed by %(person)s"),
}


@dataclass(kw_only=True)
class InputCard:
    """One request. ``number`` of ``total`` counts those that the tool made at once. ``refused`` is a form that came back
    with an error."""

    asked: ToolInput
    number: int = 1
    total: int = 1
    refused: InputForm | None = None

    @property
    def hex(self) -> str:
        return self.asked.public_id.hex

    @cached_property
    def form(self) -> InputForm:
        return self.refused or InputForm(asked=self.asked)

    @property
    def message(self) -> str:
        return reveal(self.asked.message)

    @property
    def is_address(self) -> bool:
        return bool(self.asked.url)

    @property
    def address_parts(self) -> list[Part]:
        """The whole address as text; characters that nobody sees by their codes."""
        return visible_parts(self.asked.url, most=MOST_ADDRESS_PARTS)

    @property
    def link(self) -> str:
        """The address, if it may be a link: a web address, as its server wrote it."""
        url = self.asked.url
        is_web = is_safe_link(url) and url.lower().startswith(("https:", "http:"))
        return url if is_web and url.isprintable() and self.host else ""

    @property
    def host(self) -> str:
        return host_of(self.asked.url)

    @property
    def waits_in_open_call(self) -> bool:
        """True if the server waits for the answer, until ``asked.expires_at``."""
        return self.asked.source == InputSource.OPEN_CALL and self.asked.expires_at is not None

    @property
    def place(self) -> str:
        if self.total == 1:
            return ""
        text = gettext("%(number)s of %(total)s")
        return text % {"number": self.number, "total": self.total}

    @property
    def outcome(self) -> str:
        words = _OUTCOMES.get(self.asked.status)
        if words is None:
            return gettext("Open") if self.asked.is_open else gettext("Not answered")
        person = person_of(self.asked.answered_by, "") or gettext("Someone")
        return str(words) % {"person": person}

    @property
    def values(self) -> SafeString | None:
        """The answer, by the labels of the form."""
        given = labelled(self.asked)
        if not given:
            return None
        return ApprovalCall(tool="", server="", arguments=given, raw="").table


def input_cards(rows: Iterable[ToolInput]) -> list[InputCard]:
    """The requests of one call in their order."""
    by_round: dict[int, list[ToolInput]] = {}
    for row in rows:
        by_round.setdefault(row.round, []).append(row)
    return [
        InputCard(asked=row, number=number, total=len(asked))
        for asked in by_round.values()
        for number, row in enumerate(asked, start=1)
    ]


def first_open(cards: Sequence[InputCard]) -> InputCard | None:
    """They are answered one after the other."""
    return next((card for card in cards if card.asked.is_open), None)
