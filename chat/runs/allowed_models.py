"""The admission check of models per team: a run uses only a model that its conversation's team may use, and parameters
within the team's limits. It holds for each way into the queue, also for those that offer no list of models."""

from __future__ import annotations

from django.utils.translation import gettext

from chat import access
from chat.core.errors import ActionRefused
from chat.models import Run
from chat.models.model_grant import limits_of
from chat.runs.admission import AdmissionCheck, Trigger

# Parameters without which a server may answer at any length, so that a limit of them is always sent.
_LENGTHS = frozenset({"max_tokens", "max_output_tokens", "max_completion_tokens"})


def _check_model(run: Run) -> None:
    """A parameter above its limit is lowered, and a note of the run says so: it comes from presets, projects, programs
    and earlier answers as well, where a refusal would leave people without an answer and nothing to correct."""
    server = run.upstream
    if server is None or not server.is_limited:
        return
    grants = access.grants_at(server.pk, run.conversation.team_id, run.requested_by_id)
    if not any(grant.allows(run.model) for grant in grants):
        raise ActionRefused(
            gettext("This team can’t use %(model)s. Choose another model.") % {"model": run.model}
        )
    limits = limits_of(grants, run.model)
    if not limits:
        return
    run.parameters = dict(run.parameters)
    notes = [_lower(run, name, most) for name, most in limits.items()]
    run.notes = [*run.notes, *filter(None, notes)]


def _lower(run: Run, name: str, most: float) -> str:
    """Returns the note, if the parameter was above its limit."""
    chosen = run.parameters.get(name)
    if chosen is None and name not in _LENGTHS:
        return ""
    is_number = isinstance(chosen, int | float) and not isinstance(chosen, bool)
    if is_number and chosen <= most:
        return ""
    run.parameters[name] = most
    if chosen is None:
        return ""
    return gettext("%(name)s was lowered to %(most)s, the limit of the team.") % {
        "name": name,
        "most": most,
    }


ALLOWED_MODELS = AdmissionCheck(
    name="allowed_models", triggers=frozenset(Trigger), check=_check_model
)
