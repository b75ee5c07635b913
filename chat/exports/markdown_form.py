"""A conversation as a Markdown document: the visible branch, or all branches one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from django.utils.translation import gettext

from chat import events as canonical
from chat.conversations.change_lines import ChangeLine
from chat.events import (
    Citation,
    InvalidToolCallItem,
    JsonObject,
    MediaItem,
    MessageItem,
    OutputItem,
    ReasoningItem,
    RefusalItem,
    Result,
    ToolCallItem,
)
from chat.exports.markdown_text import (
    contained,
    fenced,
    fenced_json,
    line_of,
    link_to,
    quoted,
)
from chat.exports.reading import Source, read_turns
from chat.exports.sent_documents import SentDocument, sent_documents
from chat.models import Message, QuestionKind, Role, Run, StoredFile
from chat.models.run import model_label
from chat.models.tree import Position
from chat.questions.card_reading import card_of
from chat.questions.question_cards import QuestionCard
from chat.rendering.figures import size
from chat.rendering.messages import ending_notice
from chat.result import fold
from chat.result.asks import options_in
from chat.result.deferred_tools import has_deferred, shown_item
from chat.result.merge import merge
from chat.runs.segments import read_events


def write_markdown(source: Source, *, with_all_branches: bool = False) -> Iterator[bytes]:
    """The document in pieces, one for each turn."""
    positions = source.order if with_all_branches else source.visible
    yield _joined(_head(source))
    lines = source.lines_below(positions)
    turns = read_turns(source, [position.pk for position in positions])
    for position, message in zip(positions, turns, strict=False):
        heading = _heading(message, position, is_numbered=with_all_branches)
        yield _joined([heading, *_body(message), _changes(lines.get(message.pk, ()))])


def _joined(parts: Sequence[str]) -> bytes:
    return ("\n\n".join(part for part in parts if part) + "\n\n").encode()


def moment(value: datetime) -> str:
    """A time in UTC, so that everybody exports the same."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


# --- around the texts ---------------------------------------------------------------------------


def _head(source: Source) -> list[str]:
    room = source.conversation
    facts = gettext("Team: %(team)s · Owner: %(owner)s · Created: %(created)s") % {
        "team": line_of(str(room.team)),
        "owner": line_of(str(room.owner)),
        "created": moment(room.created_at),
    }
    parts = [f"# {line_of(room.title)}", facts]
    if room.system_prompt and source.with_settings:
        parts += [f"**{gettext('System prompt')}**", fenced(room.system_prompt)]
    return parts


def author_of(message: Message) -> str:
    """The author of a message, or the model of an answer."""
    if message.role == Role.USER:
        return message.author_name
    runs = list(message.runs.all())
    return model_label(runs[-1]) if runs else gettext("Answer")


def _heading(message: Message, position: Position, *, is_numbered: bool) -> str:
    author = line_of(author_of(message))
    facts = [moment(message.created_at)]
    if not is_numbered:
        return f"## {author}\n\n*{facts[0]}*"
    if position.sibling_count > 1:
        facts.append(
            gettext("Version %(number)d of %(count)d")
            % {"number": position.sibling_number, "count": position.sibling_count}
        )
    if position.begins_branch:
        branch = gettext("Another branch, from message %(number)d")
        facts.append(
            branch % {"number": position.parent_number}
            if position.parent_number
            else gettext("Another first message")
        )
    return f"## {position.number}. {author}\n\n*{' · '.join(facts)}*"


def _body(message: Message) -> Iterator[str]:
    if message.role == Role.USER:
        yield contained(message.text)
        attachments = list(message.attachments.all())
        yield _list_of_files([each.file for each in attachments])
        for sent in sent_documents(attachments):
            if sent.text is not None:
                yield _heading_of_document(sent)
                yield fenced(sent.text)
        return
    runs = list(message.runs.all())
    results = [_result_of(run) for run in runs]
    if results:
        yield from _answer(merge(results), runs)


def _heading_of_document(sent: SentDocument) -> str:
    name = line_of(sent.file.name)
    return f"**{name}** ({line_of(sent.choice)})" if sent.choice else f"**{name}**"


def _changes(lines: Sequence[ChangeLine]) -> str:
    """The lines about changes below a message."""
    return "\n".join(f"* *{line_of(line.sentence)} · {moment(line.at)}*" for line in lines)


def _result_of(run: Run) -> Result:
    return canonical.decode_result(run.result) if run.result else fold(read_events(run))


def _list_of_files(files: Sequence[StoredFile]) -> str:
    return "\n".join(
        f"* {line_of(file.name)} ({line_of(file.media_type)}, "
        + (gettext("file deleted") if file.is_deleted else size(file.size_bytes))
        + ")"
        for file in files
    )


# --- an answer ----------------------------------------------------------------------------------


def _answer(result: Result, runs: Sequence[Run]) -> Iterator[str]:
    are_deferred = any(has_deferred(run.tools) for run in runs)
    for item in result.output:
        yield from WRITERS[type(item)](shown_item(item) if are_deferred else item)
    for alternative in result.ext.alternatives:
        yield f"**{gettext('Answer %(number)d') % {'number': alternative.choice + 1}}**"
        for item in alternative.output:
            yield from WRITERS[type(item)](item)
    for artifact in result.ext.artifacts:
        yield from _artifact(artifact)
    for mockup in result.ext.mockups:
        yield from _mockup(mockup)
    for run in runs:
        for question in run.questions.all():
            yield from _question(card_of(question))
    made = {file.file_id: file.file for run in runs for file in run.files.all()}
    yield _list_of_files(list(made.values()))
    yield _ending(result, runs[-1])


def _message(item: Any) -> Iterator[str]:
    yield contained(item.content)
    yield from _sources(item.citations)


def _reasoning(item: Any) -> Iterator[str]:
    if item.content.strip():
        yield quoted(f"**{gettext('Reasoning')}**\n\n{contained(item.content)}")


def _call(item: Any) -> Iterator[str]:
    yield f"**{gettext('Tool call: %(tool)s') % {'tool': line_of(item.tool)}}**"
    yield fenced_json(item.arguments) if item.arguments else fenced(item.arguments_raw or "{}")
    if item.output is not None:
        yield gettext("Error:") if item.status == "failed" else gettext("Result:")
        yield fenced(item.output)


def _invalid_call(item: Any) -> Iterator[str]:
    yield f"**{gettext('Tool call: %(tool)s') % {'tool': line_of(item.metadata.tool_name)}}**"
    if item.metadata.arguments or item.arguments_raw:
        yield (
            fenced_json(item.metadata.arguments)
            if item.metadata.arguments
            else fenced(item.arguments_raw)
        )
    yield gettext("Error:")
    yield fenced(item.reason)


def _refusal(item: Any) -> Iterator[str]:
    yield f"**{gettext('Refusal')}**"
    yield contained(item.content)


def _media(item: Any) -> Iterator[str]:
    words = " · ".join(part for part in (item.media_type, item.file or "") if part)
    yield f"*{line_of(words)}*"
    if item.transcript:
        yield quoted(contained(item.transcript))


WRITERS: dict[type[OutputItem], Callable[[Any], Iterator[str]]] = {
    MessageItem: _message,
    ReasoningItem: _reasoning,
    ToolCallItem: _call,
    InvalidToolCallItem: _invalid_call,
    RefusalItem: _refusal,
    MediaItem: _media,
}


def _sources(citations: Sequence[Citation]) -> Iterator[str]:
    found = dict.fromkeys((each.url or "", each.title or "") for each in citations)
    links = [link_to(url, title) for url, title in found if url or title]
    if links:
        yield gettext("Sources:")
        yield "\n".join(f"{number}. {link}" for number, link in enumerate(links, start=1))


def _artifact(artifact: JsonObject) -> Iterator[str]:
    title = artifact.get("title") or artifact.get("identifier") or gettext("Untitled")
    yield f"**{gettext('Artifact: %(title)s') % {'title': line_of(str(title))}}**"
    content = artifact.get("content")
    if content:
        yield fenced(str(content), str(artifact.get("language") or ""))


def _mockup(mockup: JsonObject) -> Iterator[str]:
    title = mockup.get("title") or mockup.get("identifier") or gettext("Untitled")
    yield f"**{gettext('Mockup: %(title)s') % {'title': line_of(str(title))}}**"
    files = cast(list[JsonObject], mockup.get("files") or [])
    yield "\n".join(f"* {line_of(str(file.get('path', '')))}" for file in files)


def _question(card: QuestionCard) -> Iterator[str]:
    """The question and its answer. The result of a tool is in its call, if the model was given
    it."""
    if card.question.kind != QuestionKind.TOOL:
        yield f"**{gettext('Question')}**"
        yield line_of(card.words) if card.call else contained(card.words)
    if card.call:
        yield (
            fenced_json(card.call.arguments)
            if card.call.arguments
            else fenced(card.call.raw or "{}")
        )
    if card.is_open:
        yield "\n".join(f"* {line_of(option.label)}" for option in options_in(card.question.body))
        yield f"*{card.open_state}*"
        return
    yield f"*{line_of(card.outcome)}*"
    if card.question.kind != QuestionKind.TOOL:
        said = [*card.said, *(f"{label}: {value}" for label, value in card.filled)]
        yield from (quoted(contained(words)) for words in said)
    if card.reason:
        yield quoted(contained(card.reason))


def _ending(result: Result, run: Run) -> str:
    if run.is_live:
        return f"*{gettext('This answer wasn’t complete when it was exported.')}*"
    notice = ending_notice(result.ext, has_output=bool(result.output))
    if notice is None:
        return ""
    error = result.ext.error
    words = f"{notice.title}: {error.message}" if error and error.message else notice.title
    return f"*{line_of(words)}*"
