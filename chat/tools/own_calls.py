"""Executes functions of Tributary itself that a model calls, and says who may.

Access is that of the person the answer is for, at the moment of the call, whatever a model names.
"""

from __future__ import annotations

from collections.abc import Callable

from chat.core.threads import DatabaseThreads
from chat.models import Run
from chat.result.own_functions import FunctionRefused
from chat.tools.checks import decide_about_own
from chat.tools.kinds import CallFailed, CallOutput
from chat.tools.rules import Verdict

# Documents and files of skills can be large: reading them must not delay the other work of a runner in its database
# threads.
threads = DatabaseThreads("own-functions", size=1)


def answer_call(run_pk: int, answer: Callable[[Run], str]) -> CallOutput:
    """The output of a call. ``answer`` gives the text for the model, or raises ``FunctionRefused``. Raises ``CallFailed``."""
    run = Run.objects.select_related("conversation", "requested_by").get(pk=run_pk)
    decision = decide_about_own(run)
    if decision.verdict != Verdict.RUN:
        raise CallFailed(decision.reason)
    try:
        text = answer(run)
    except FunctionRefused as refusal:
        return CallOutput(text=str(refusal), is_error=True)
    return CallOutput(text=text, response_bytes=len(text.encode("utf-8", "replace")))
