"""The prompt for a title, and the title in the model's answer, which is untrusted text."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from chat.conversations.titles import first_sentence
from chat.core.text import clean

# Question and answer are each quoted up to this number of characters: enough to know the subject.
MOST_QUOTED = 3000
# The limit of the answer in tokens. A title has about ten; some models think before they write it.
MOST_TOKENS = 1000
# A title is looked for in this number of characters.
MOST_READ = 20_000

_PROMPT = tomllib.loads(Path(__file__).with_name("prompt.toml").read_text())
SYSTEM: str = _PROMPT["system"]

# Models without an API for their reasoning write it before the title.
_THOUGHT = re.compile(r"\s*<(think|thinking|thought|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.I)
_LABEL = re.compile(r"\s*[*_#\s]*title[*_\s]*[:：][*_\s]*", re.I)
_QUOTES = "\"'“”„‟‘’‚‛«»‹›「」『』`"


def request_text(question: str, answer: str) -> str:
    text: str = _PROMPT["question"]
    return text.format(question=_quoted(question), answer=_quoted(answer))


def _quoted(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}…"


def title_in(written: str) -> str:
    """The title in what a model wrote: one line without Markdown, quotation marks and invisible characters.
    Empty if there is none."""
    # Tabs and the like between words are spaces.
    lines = (" ".join(line.split()) for line in clean(written[:MOST_READ]).splitlines())
    text = "\n".join(lines)
    while thought := _THOUGHT.match(text):
        text = text[thought.end() :]
    if label := _LABEL.match(text):
        text = text[label.end() :]
    title = first_sentence(text.strip().lstrip(_QUOTES)).strip(_QUOTES).rstrip(".").strip()
    return title if any(letter.isalnum() for letter in title) else ""
