"""The form with which administrators choose the model that writes titles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from chat.conversations.choice_form import ChoiceForm
from chat.models import Conversation, TitleSetting, Upstream


class TitlesForm(ChoiceForm):
    """A server and model, or neither. Titles have no parameters that people choose."""

    no_choice_label: ClassVar[Promise | None] = gettext_lazy("Off")
    system_prompt = None
    typed_model = None

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        setting: TitleSetting | None,
        upstreams: Iterable[Upstream],
    ) -> None:
        chosen = setting or TitleSetting()
        remembered = Conversation(upstream=chosen.upstream, model=chosen.model)
        super().__init__(data, upstreams=upstreams, remembered=remembered)

    def _add_parameters(self, dialect: str) -> None:
        """No fields."""

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("choice"):
            return super().clean()
        return {**self.cleaned_data, "upstream": None, "model": ""}
