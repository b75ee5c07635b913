"""Forms of comments."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from chat.comments.actions import TEXT_LIMIT, Passage
from chat.core.text import clean
from chat.web.forms import Sentences, WordsField

# Longer passages are cut by the page, which shows the quotation before it is sent.
QUOTE_LIMIT = 2_000
CONTEXT_LIMIT = 100


class TextForm(Sentences):
    text = WordsField(
        label=gettext_lazy("Comment"),
        max_length=TEXT_LIMIT,
        error_messages={
            "required": gettext_lazy("Enter a comment."),
            "max_length": gettext_lazy("A comment can have at most %(limit_value)d characters."),
        },
    )

    def clean_text(self) -> str:
        return clean(self.cleaned_data["text"])


class ReplyForm(TextForm):
    key = forms.UUIDField()


class CommentForm(ReplyForm):
    """A comment with its passage, which the page describes: nothing of it is trusted but that it is text."""

    part = forms.RegexField(r"^[\w-]+$", required=False, max_length=CONTEXT_LIMIT)
    quote = WordsField(required=False, max_length=QUOTE_LIMIT)
    prefix = WordsField(required=False, max_length=CONTEXT_LIMIT)
    suffix = WordsField(required=False, max_length=CONTEXT_LIMIT)
    start = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1)

    def passage(self) -> Passage:
        values = self.cleaned_data
        texts = {name: clean(values[name]) for name in ("part", "quote", "prefix", "suffix")}
        return Passage(**texts, start=values["start"] or 0)
