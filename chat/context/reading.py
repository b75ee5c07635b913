"""The parts of a conversation that the next answer is sent, in order and with their sizes.

Sizes are estimates, as only servers know their tokens. They take reading everything that is sent, so pages ask for them
on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from uuid import UUID

import msgspec
from django.db.models import Q
from django.http import Http404
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext

from chat import access, events
from chat.access import rule
from chat.conversations.actions.messages import definitions_of
from chat.conversations.choice_form import choice_value, field_name
from chat.conversations.composer import instructing_project
from chat.conversations.context_start import UsedContext, used_context
from chat.conversations.paths import Path, read_path
from chat.conversations.transcript import last_run
from chat.core.text import one_line
from chat.dialects import DIALECTS
from chat.documents.texts import tokens_of
from chat.files.chips import Chip, chips_by_message
from chat.models import (
    Conversation,
    InstructionsUse,
    Message,
    PersonalInstructions,
    Role,
    Run,
    Upstream,
    User,
)
from chat.models.imports import name_imported
from chat.models.run import model_label
from chat.models.upstream import context_tokens_of
from chat.rendering.figures import count
from chat.result.merge import merge

# Turns that the panel lists, the newest: a line has about a kilobyte.
MOST_LISTED = 400
# Characters of a turn that the list shows.
WORDS_CHARACTERS = 140
# Estimates are scaled to what a server has counted: code and pictures take more than prose. Within limits, because it may
# count only what it had not stored.
LEAST_SCALE, MOST_SCALE = 0.5, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A text that is sent before the turns, such as a system prompt. ``text`` is empty for who may not read it."""

    label: str
    icon: str
    tokens: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedTurn:
    """A turn with an estimate of its tokens. ``from_here``: of everything that is sent if it starts here."""

    hex: str
    number: int
    is_person: bool
    name: str
    words: str
    tokens: int
    files: Sequence[Chip] = ()
    from_here: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SentContext:
    """The context of the next answer: ``head``, and ``turns`` from the index ``first`` on. ``used`` are the tokens that the
    last server counted."""

    head: Sequence[Head]
    turns: Sequence[SizedTurn]
    first: int
    used: UsedContext
    by: str = ""
    at: datetime | None = None
    is_summary: bool = False

    @property
    def listed(self) -> Sequence[SizedTurn]:
        """The turns that the panel lists, which begin with a person's. If some are left out, the first that is sent is
        among them."""
        start = max(0, len(self.turns) - MOST_LISTED)
        if self.first:
            start = min(start, self.first)
        while start and not self.turns[start].is_person:
            start -= 1
        return self.turns[start:]

    @property
    def estimated(self) -> int:
        if self.first < len(self.turns):
            return self.turns[self.first].from_here
        return sum(each.tokens for each in self.head)

    @property
    def tokens(self) -> int:
        """As the server counted them, else as estimated."""
        return self.estimated if self.used.tokens is None else self.used.tokens

    def proposal(self, window: int | None) -> int:
        """The index of the turn from which the newest ones fill at most half of the window, and half of what is sent now:
        the rest is for the answers to come."""
        starts = [index for index, turn in enumerate(self.turns) if turn.is_person]
        room = min(window or self.tokens, self.tokens) // 2
        fitting = (index for index in starts if self.turns[index].from_here <= room)
        return next(fitting, starts[-1] if starts else 0)


def read_context(user: User, conversation: Conversation) -> SentContext:
    """For the branch that the person sees."""
    path = read_path(user, conversation)
    head = list(_head(user, conversation))
    turns = _with_sums(_turns(conversation, path), sum(each.tokens for each in head))
    chosen = path.context
    first = chosen.first if chosen else 0
    used = used_context(path.places, chosen, last_run(path))
    if used.tokens is not None and turns:
        # The server has counted the same.
        scale = min(max(used.tokens / max(turns[first].from_here, 1), LEAST_SCALE), MOST_SCALE)
        head = [replace(each, tokens=round(each.tokens * scale)) for each in head]
        turns = [
            replace(
                each,
                tokens=round(each.tokens * scale),
                from_here=round(each.from_here * scale),
            )
            for each in turns
        ]
    return SentContext(
        head=head,
        turns=turns,
        first=first,
        used=used,
        by=chosen.person if chosen else "",
        at=chosen.at if chosen else None,
        is_summary=chosen.is_summary if chosen else False,
    )


def _head(user: User, conversation: Conversation) -> Iterator[Head]:
    """Nobody is shown instructions of another person, or of a project that they don't see."""
    project = instructing_project(user, conversation.project_id)
    if project is not None:
        label = gettext("Project instructions")
        yield _head_of(label, "folder", project.instructions)
    if text := _personal_text(user, conversation):
        yield _head_of(gettext("Your personal instructions"), "user", text)
    if not access.may_see_settings(user, conversation):
        return
    if conversation.system_prompt:
        yield _head_of(gettext("System prompt"), "sliders-horizontal", conversation.system_prompt)
    if tools := definitions_of(conversation, user):
        label = ngettext("%(count)s tool", "%(count)s tools", len(tools)) % {
            "count": count(len(tools))
        }
        names = ", ".join(str(tool["name"]) for tool in tools)
        size = tokens_of(len(msgspec.json.encode(tools)))
        yield Head(label=label, icon="wrench", tokens=size, text=names)


def _head_of(label: str, icon: str, text: str) -> Head:
    return Head(label=label, icon=icon, tokens=tokens_of(len(text)), text=text)


def _personal_text(user: User, conversation: Conversation) -> str:
    is_wanted = Q(use=InstructionsUse.ALL)
    if Conversation.objects.filter(rule.IS_PRIVATE, pk=conversation.pk).exists():
        is_wanted |= Q(use=InstructionsUse.PRIVATE)
    rows = PersonalInstructions.objects.filter(is_wanted, user=user)
    return rows.values_list("text", flat=True).first() or ""


# --- turns ----------------------------------------------------------------------------------------


def _turns(conversation: Conversation, path: Path) -> list[SizedTurn]:
    keys = [place.message.pk for place in path.places]
    messages = Message.objects.select_related("author").in_bulk(keys)
    name_imported(conversation.pk, messages=messages.values())
    chips = chips_by_message(conversation)
    answers = _answers(keys)
    turns = []
    for number, key in enumerate(keys, start=1):
        message = messages.get(key)
        if message is None:
            continue
        is_person = message.role == Role.USER
        name, words, tokens = (
            (message.author_name, message.text, tokens_of(len(message.text)))
            if is_person
            else answers.get(key, (gettext("no model"), "", 0))
        )
        files = chips.get(key, [])
        turns.append(
            SizedTurn(
                hex=message.public_id.hex,
                number=number,
                is_person=is_person,
                name=name,
                words=Truncator(one_line(words[: 4 * WORDS_CHARACTERS])).chars(WORDS_CHARACTERS),
                tokens=tokens + sum(_tokens_of_file(chip) for chip in files),
                files=files,
            )
        )
    return turns


def _tokens_of_file(chip: Chip) -> int:
    """Chips of sent messages count no tokens themselves. Nobody knows how many a picture takes."""
    document = chip.document
    if document is None or not document.is_readable or chip.is_for_tools:
        return 0
    return tokens_of(document.characters)


def _answers(keys: Sequence[int]) -> Mapping[int, tuple[str, str, int]]:
    """The model, the first words and the tokens of each answer, of which one is in memory at a time."""
    runs = Run.objects.filter(message__in=keys).order_by("message_id", "position")
    rows = runs.only("message_id", "position", "model", "upstream_id", "result")
    upstreams = Upstream.objects.in_bulk(list(runs.order_by().values_list("upstream", flat=True)))
    found = {}
    for key, group in groupby(rows.iterator(chunk_size=10), lambda run: run.message_id):
        several = list(group)
        last = several[-1]
        last.upstream = upstreams.get(last.upstream_id)
        results = [events.decode_result(run.result) for run in several if run.result]
        texts = _texts(merge(results).output) if results else []
        words = next((text for is_said, text in texts if is_said and text.strip()), "")
        found[key] = (model_label(last), words, tokens_of(sum(len(text) for _, text in texts)))
    return found


def _texts(output: Sequence[events.OutputItem]) -> list[tuple[bool, str]]:
    """The texts of an answer that are sent back, and whether each was said to people. Reasoning is not sent back."""
    texts: list[tuple[bool, str]] = []
    for item in output:
        if isinstance(item, events.MessageItem | events.RefusalItem):
            texts.append((True, item.content))
        elif isinstance(item, events.ToolCallItem):
            arguments = item.arguments_raw or msgspec.json.encode(item.arguments).decode()
            texts.append((False, f"{item.tool}{arguments}{item.output or ''}"))
    return texts


def _with_sums(turns: Sequence[SizedTurn], head: int) -> list[SizedTurn]:
    total = head
    summed = []
    for turn in reversed(turns):
        total += turn.tokens
        summed.append(replace(turn, from_here=total))
    return summed[::-1]


# --- the model that is chosen in the composer ---------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenModel:
    """``window`` is how many tokens the model can read, if its server says so. ``condense_field`` is the field of the
    composer with which its server condenses long conversations by itself, beyond ``condense_above`` tokens."""

    value: str
    window: int | None = None
    condense_field: str = ""
    condense_above: int = 0


def chosen_model(user: User, conversation: Conversation, value: str) -> ChosenModel:
    """``value`` is that of an option of the composer; empty for the last choice in the conversation."""
    value = value or choice_value(conversation.upstream, conversation.model)
    identity, _, model = value.partition(":")
    try:
        upstream = access.get_usable_upstream(
            user, UUID(identity), conversation.team_id, known=conversation.upstream
        )
    except (ValueError, Http404):
        return ChosenModel(value="")
    entry = next((each for each in upstream.model_list if each.get("id") == model), {})
    window = context_tokens_of(entry)
    dialect = DIALECTS.get(upstream.dialect)
    name = dialect.compaction_parameter if dialect else ""
    if dialect is None or not name or window is None:
        return ChosenModel(value=value, window=window)
    if all(each.name != name for each in dialect.parameters_for(upstream.options)):
        return ChosenModel(value=value, window=window)
    return ChosenModel(
        value=value,
        window=window,
        condense_field=field_name(dialect.name, name),
        # The answer has room for the rest.
        condense_above=window * 3 // 4,
    )
