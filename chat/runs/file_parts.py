"""The seam by which a feature says what a model gets of attached documents.

The engine itself sends pictures and recordings as they are. `chat.apps` registers the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from chat.dialects.base import Dialect, Part, ToolDefinition
from chat.dialects.parameters import Values
from chat.models import Attachment, Run


class DocumentUnread(Exception):
    """The run must wait until this document is read; ``name`` is that of its file."""

    def __init__(self, document: int, name: str) -> None:
        super().__init__(document)
        self.document = document
        self.name = name


class DocumentRefused(Exception):
    """A document of the message that is answered can't be sent. The text is a sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsRequest:
    """Documents that are attached on the path of a run, in the order of messages. ``newest`` is the key of the message
    that is answered, ``taken_names`` are the names of the run's own tools, and with ``takes_tools`` it may be offered
    more."""

    run: Run
    attachments: Sequence[Attachment]
    newest: int | None
    dialect: Dialect
    options: Values
    takes_tools: bool
    taken_names: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileParts:
    """``parts`` are by the key of the message, ``notes`` sentences for the run's details, and ``tools`` those with which
    the model reads files that are not sent."""

    parts: Mapping[int, Sequence[Part]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tools: Sequence[ToolDefinition] = ()


# Raises ``DocumentUnread``, ``DocumentRefused`` and ``FilesUnavailable``.
BuildParts = Callable[[PartsRequest], FileParts]


def _nothing(request: PartsRequest) -> FileParts:
    return FileParts()


_build: BuildParts = _nothing


def use_file_parts(build: BuildParts) -> None:
    """Sets what builds the parts in this process. `chat.apps` calls it once."""
    global _build
    _build = build


def file_parts(request: PartsRequest) -> FileParts:
    return _build(request)
