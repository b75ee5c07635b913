"""Forms of skills: the file to import, what of it, and the text of SKILL.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from chat.models import Project, Team
from chat.skills.archive import UPLOAD_BYTES
from chat.skills.manifest import FILE_NAME, TEXT_LENGTH
from chat.web.forms import WordsField
from chat.web.places import PlaceField


class UploadForm(forms.Form):
    file = forms.FileField(
        label=gettext_lazy("File"),
        help_text=gettext_lazy(
            "A ZIP file with the folder of a skill, or of several, or a SKILL.md."
        ),
        widget=forms.FileInput(attrs={"accept": ".zip,.skill,.md,application/zip,text/markdown"}),
        error_messages={
            "required": gettext_lazy("Choose a file."),
            "empty": gettext_lazy("This file is empty."),
        },
    )

    def body(self) -> bytes:
        """The file of a valid form, or its beginning if it is too large."""
        body: bytes = self.cleaned_data["file"].read(UPLOAD_BYTES + 1)
        return body


class ImportForm(forms.Form):
    """The skills of the upload to import, by their names, and the place."""

    place = PlaceField()
    skills = forms.MultipleChoiceField(
        label=gettext_lazy("Skills"),
        error_messages={"required": gettext_lazy("Choose a skill to import.")},
    )

    def __init__(
        self,
        data: Any = None,
        *,
        names: Sequence[str],
        teams: Sequence[Team],
        projects: Sequence[Project],
    ) -> None:
        super().__init__(data, initial={"skills": names})
        self.fields["place"].offer(teams, projects)
        self.fields["skills"].choices = [(name, name) for name in names]


class TextForm(forms.Form):
    text = WordsField(
        label=FILE_NAME,
        strip=False,
        max_length=TEXT_LENGTH,
        widget=forms.Textarea(
            attrs={"rows": 24, "dir": "auto", "class": "code", "spellcheck": "false"}
        ),
    )
