"""Executes the functions by which a model loads skills.

They reach the skills that are switched on in the conversation of the answer, as far as the person the answer is for may
use them.
"""

from __future__ import annotations

from chat.events import JsonObject
from chat.models import Run
from chat.skills.functions import answer, enabled_skills
from chat.tools.checks import requester_of
from chat.tools.kinds import CallOutput, CallRequest
from chat.tools.own_calls import answer_call, threads


async def load_skills(request: CallRequest) -> CallOutput:
    """Raises ``CallFailed``."""
    address = request.address
    return await threads.call(_answer, address.run, address.name, request.arguments)


def _answer(run_pk: int, name: str, arguments: JsonObject) -> CallOutput:
    def answered(run: Run) -> str:
        skills = enabled_skills(run.conversation, requester_of(run))
        return answer(name, arguments, skills)

    return answer_call(run_pk, answered)
