"""The cards of what a run waits for: open, or settled."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat.models import (
    UNSETTLED_STATUSES,
    Question,
    QuestionKind,
    QuestionStatus,
    ToolCall,
    User,
)
from chat.questions.actions import fields_of, options_of
from chat.questions.forms import FORMS, ReasonForm, ReplyForm, value_label
from chat.rendering.approvals import ApprovalCall, call_in
from chat.rendering.components import name_of, output_excerpt, pretty
from chat.rendering.tool_calls import arguments_of

# Length of the line that shows a call's arguments.
HINT_CHARACTERS = 90

_OUTCOMES: dict[tuple[str, str], Promise] = {
    (QuestionKind.ASK, QuestionStatus.ANSWERED): gettext_lazy("Answered by %(person)s"),
    (QuestionKind.ASK, QuestionStatus.DECLINED): gettext_lazy("Declined by %(person)s"),
    (QuestionKind.ASK, QuestionStatus.EXPIRED): gettext_lazy("Skipped by %(person)s"),
    (QuestionKind.APPROVAL, QuestionStatus.ANSWERED): gettext_lazy("Approved by %(person)s"),
    (QuestionKind.APPROVAL, QuestionStatus.DECLINED): gettext_lazy("Declined by %(person)s"),
    (QuestionKind.APPROVAL, QuestionStatus.EXPIRED): gettext_lazy("Skipped by %(person)s"),
    (QuestionKind.TOOL, QuestionStatus.ANSWERED): gettext_lazy("Result submitted by %(person)s"),
    (QuestionKind.TOOL, QuestionStatus.DECLINED): gettext_lazy("Declined by %(person)s"),
    (QuestionKind.TOOL, QuestionStatus.EXPIRED): gettext_lazy("Skipped by %(person)s"),
}
_ICONS: dict[str, tuple[str, str]] = {
    QuestionStatus.ANSWERED: ("check", "good"),
    QuestionStatus.DECLINED: ("ban", "calm"),
    QuestionStatus.EXPIRED: ("circle-stop", "calm"),
}


@dataclass(kw_only=True)
class QuestionCard:
    """One question of a run. ``form`` has what was typed, if it was refused."""

    question: Question
    form: ReplyForm | None = None
    refusal: str = ""

    def __post_init__(self) -> None:
        if self.form is None and self.question.is_open:
            self.form = FORMS[self.question.kind](question=self.question)

    @property
    def hex(self) -> str:
        return self.question.public_id.hex

    @property
    def is_open(self) -> bool:
        return self.question.is_open

    @property
    def is_settled(self) -> bool:
        return self.question.status not in UNSETTLED_STATUSES

    @property
    def tool_call(self) -> ToolCall | None:
        """The call, of a tool that Tributary runs."""
        return None

    @property
    def is_tool(self) -> bool:
        return self.question.kind == QuestionKind.TOOL

    @property
    def is_approval(self) -> bool:
        return self.question.kind == QuestionKind.APPROVAL

    @property
    def is_shared(self) -> bool:
        """True if others can answer, too, so that it helps to say who does."""
        return self.question.is_seen_by_others

    @property
    def stage(self) -> str:
        """A word without a dash that changes with more of the card than its line."""
        return "open" if self.is_open else "settled"

    @property
    def mark(self) -> str:
        """The stage, and a value that changes with the line of a card that isn't settled, which says who is
        answering, and lets people say so where others can answer, too."""
        claimer = self.claimer
        if claimer is not None:
            return f"{self.stage}-{digest(claimer.public_id.hex)}"
        return self.stage if self.is_shared or not self.is_open else f"{self.stage}-alone"

    @property
    def has_own_way_on(self) -> bool:
        return False

    @property
    def names_reader(self) -> bool:
        """True if it names a person, who is told the same in other words."""
        return self.claimer is not None

    @property
    def claimer(self) -> User | None:
        is_claimed = self.question.status == QuestionStatus.CLAIMED
        return self.question.claimed_by if is_claimed else None

    # --- what is asked ---------------------------------------------------------------------

    @cached_property
    def call(self) -> ApprovalCall | None:
        """The call that an approval is about, where the server has told more than a text."""
        return call_in(self.question.body) if self.is_approval else None

    @property
    def words(self) -> str:
        return self.call.sentence if self.call else str(self.question.body.get("question") or "")

    @property
    def tool(self) -> str:
        return name_of(str(self.question.body.get("tool") or "tool"))

    @property
    def arguments(self) -> SafeString:
        return arguments_of(self.question.body.get("arguments") or {}, self.tool)

    @property
    def hint(self) -> str:
        """The arguments in one line."""
        arguments = self.question.body.get("arguments")
        line = name_of(pretty(arguments, None)) if arguments else ""
        return line if len(line) <= HINT_CHARACTERS else f"{line[:HINT_CHARACTERS]}…"

    @property
    def reason_form(self) -> ReasonForm:
        return ReasonForm(question=self.question)

    @property
    def open_state(self) -> str:
        """The state of an open question in a copy that nobody can answer it in."""
        return gettext("Not answered yet")

    # --- the outcome -----------------------------------------------------------------------

    @property
    def outcome(self) -> str:
        """The decision, and who made it."""
        return self.decision

    @property
    def decision(self) -> str:
        """The decision of a person."""
        sentence = (
            gettext("Error reported by %(person)s")
            if self.is_wrong
            else str(_OUTCOMES[self.question.kind, self.question.status])
        )
        return sentence % {"person": self.question.answerer_name}

    @property
    def is_wrong(self) -> bool:
        return bool(self.question.answer.get("is_error"))

    @property
    def icon(self) -> str:
        return "x" if self.is_wrong else _ICONS.get(self.question.status, ("check", "good"))[0]

    @property
    def tone(self) -> str:
        return "bad" if self.is_wrong else _ICONS.get(self.question.status, ("check", "good"))[1]

    @property
    def badge_tone(self) -> str:
        return "" if self.tone == "calm" else self.tone

    @property
    def output(self) -> SafeString:
        return output_excerpt(str(self.question.answer.get("output") or ""))

    @property
    def has_output(self) -> bool:
        return bool(self.question.answer.get("output"))

    @property
    def reason(self) -> str:
        return str(self.question.answer.get("reason") or "")

    @property
    def said(self) -> list[str]:
        """The reply to a question: the chosen options by their labels, then the text."""
        labels = {option.value: option.label for option in options_of(self.question)}
        chosen = [labels.get(value, value) for value in self.question.answer.get("selected") or ()]
        text = self.question.answer.get("text")
        return [*chosen, *([str(text)] if text else [])]

    @property
    def filled(self) -> list[tuple[str, str]]:
        """The fields that were filled in: label and value."""
        values = self.question.answer.get("fields") or {}
        return [
            (field.label, value_label(field, str(values[field.name])))
            for field in fields_of(self.question)
            if values.get(field.name)
        ]


def digest(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
