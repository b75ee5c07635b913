"""The cards of what a run waits for: open, or settled."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.models import Question, QuestionKind, QuestionStatus, Run, RunStatus, User
from chat.models.imports import name_answerers
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
    def is_tool(self) -> bool:
        return self.question.kind == QuestionKind.TOOL

    @property
    def is_approval(self) -> bool:
        return self.question.kind == QuestionKind.APPROVAL

    @property
    def is_shared(self) -> bool:
        """Whether others can answer, too, so that it helps to say who does."""
        return self.question.is_seen_by_others

    @property
    def mark(self) -> str:
        """A value that changes with the line of an open question, which says who is answering, and lets people
        say so where others can answer, too."""
        claimer = self.claimer
        if claimer is not None:
            return f"{zlib.crc32(claimer.public_id.bytes):08x}"
        return "open" if self.is_shared else "open-alone"

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

    # --- the outcome -----------------------------------------------------------------------

    @property
    def outcome(self) -> str:
        """The decision, and who made it."""
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


def cards_by_run(runs: Iterable[Run]) -> dict[int, tuple[QuestionCard, ...]]:
    """The questions of these runs by run, in their order. One query, and none if no run ended with
    questions."""
    keys = [run.pk for run in runs if run.status == RunStatus.WAITING]
    if not keys:
        return {}
    rows = Question.objects.filter(run__in=keys).select_related(
        "claimed_by", "answered_by", "conversation"
    )
    rows = access.with_audience(rows)
    questions = list(rows.order_by("run", "position", "pk"))
    name_answerers(questions)
    asked: dict[int, list[QuestionCard]] = {}
    for question in questions:
        asked.setdefault(question.run_id, []).append(QuestionCard(question=question))
    return {run: tuple(questions) for run, questions in asked.items()}
