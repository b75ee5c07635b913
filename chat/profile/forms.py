"""The form of the profile picture."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from chat.profile.actions import UPLOAD_BYTES
from chat.rendering.figures import size


class PictureForm(forms.Form):
    picture = forms.FileField(
        label=gettext_lazy("Picture"),
        widget=forms.FileInput(attrs={"accept": "image/png,image/jpeg,image/webp,image/gif"}),
    )

    def clean_picture(self) -> Any:
        picture = self.cleaned_data["picture"]
        if picture.size > UPLOAD_BYTES:
            raise forms.ValidationError(
                gettext("Choose a picture of at most %(limit)s.") % {"limit": size(UPLOAD_BYTES)}
            )
        return picture
