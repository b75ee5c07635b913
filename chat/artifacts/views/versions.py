"""Code shared by the pages of artifacts and mockups: both are files with numbered versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext

from chat import access
from chat.artifacts.views.previews import Ticket, sign
from chat.models import Artifact, ArtifactVersion, Mockup, MockupVersion, User
from chat.web.responses import beside_room

Version = ArtifactVersion | MockupVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    label: str
    address: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLink:
    number: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepper:
    """The versions before and after this one, if there are any."""

    number: int
    count: int
    before: VersionLink | None
    after: VersionLink | None

    @classmethod
    def of(cls, number: int, numbers: Sequence[int], address: Callable[[int], str]) -> Stepper:
        place = numbers.index(number)

        def step(at: int) -> VersionLink | None:
            if not 0 <= at < len(numbers):
                return None
            return VersionLink(number=numbers[at], address=address(numbers[at]))

        return cls(number=number, count=len(numbers), before=step(place - 1), after=step(place + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedFile:
    """A kind of versioned file. ``kind`` names its model, its template and the route of its
    preview; ``tabs`` has the label and the route of each tab."""

    kind: str
    model: type[ArtifactVersion] | type[MockupVersion]
    load: Callable[[User, UUID], Artifact | Mockup]
    tabs: Mapping[str, tuple[str, str]]

    def version(self, request: HttpRequest, public_id: UUID, number: int) -> Any:
        """The version with its file. Raises ``Http404``."""
        kept = self.load(request.user, public_id)
        version = (
            self.model.objects.filter(**{self.kind: kept}, number=number)
            .select_related("run__message")
            .defer("run__result")
            .first()
        )
        if version is None:
            raise Http404(access.NOT_HERE)
        setattr(version, self.kind, kept)
        return version

    def redirect_to_made(self, request: HttpRequest, public_id: UUID, seq: int) -> HttpResponse:
        """Redirects from a card, which knows its run and its event, to the version that was
        stored."""
        run = access.get_run(request.user, public_id)
        rows = self.model.objects.filter(run=run, seq=seq).select_related(self.kind)
        place = rows.values_list(f"{self.kind}__public_id", "number").first()
        if place is None:
            # The number of stored versions is limited; the list shows those that are there.
            return redirect("conversation_files", run.conversation.public_id)
        return redirect(self.kind, *place)

    def preview(
        self, request: HttpRequest, version: Version, *, may_run: bool, path: str = ""
    ) -> dict[str, Any]:
        """The context of a preview in a frame. Scripts run only after a ``POST``, so that a link
        alone cannot start them."""
        place = self._place(version)
        ticket = Ticket(
            kind=self.kind,
            public_id=place[0],
            number=version.number,
            user=request.user.public_id,
            runs=request.method == "POST",
        )
        return {
            "frame_address": sign(ticket, path),
            "runs": ticket.runs,
            "may_run": may_run,
            "preview_page": reverse(self.kind, args=place),
        }

    def page(
        self,
        request: HttpRequest,
        version: Version,
        tab: str,
        tabs: Sequence[str],
        context: Mapping[str, Any],
    ) -> HttpResponse:
        kept = getattr(version, self.kind)
        numbers = list(kept.versions.values_list("number", flat=True))
        route = self.tabs[tab][1]
        whole = {
            "version": version,
            "numbers": numbers,
            "stepper": Stepper.of(
                version.number, numbers, lambda n: reverse(route, args=[kept.public_id, n])
            ),
            "tabs": [
                Tab(
                    label=gettext(self.tabs[name][0]),
                    address=reverse(self.tabs[name][1], args=self._place(version)),
                    is_current=name == tab,
                )
                for name in tabs
            ],
            "tab": tab,
            "may_write": access.may_write(request.user, kept.conversation),
            **context,
        }
        return beside_room(request, f"artifacts/{self.kind}.html", kept.conversation, whole)

    def _place(self, version: Version) -> list[Any]:
        return [getattr(version, self.kind).public_id, version.number]
