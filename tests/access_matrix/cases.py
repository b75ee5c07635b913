"""All cases of the access matrix."""

from __future__ import annotations

from tests.access_matrix.access_reasons import ACCESS_REASON_CASES
from tests.access_matrix.conversations import CONVERSATION_CASES
from tests.access_matrix.exports import EXPORT_CASES
from tests.access_matrix.feedback import FEEDBACK_CASES
from tests.access_matrix.identity import IDENTITY_CASES
from tests.access_matrix.organization import ORGANIZATION_CASES
from tests.access_matrix.participants import PARTICIPANT_CASES
from tests.access_matrix.people import PEOPLE_CASES
from tests.access_matrix.presets import PRESET_CASES
from tests.access_matrix.projects import PROJECT_CASES
from tests.access_matrix.prompts import PROMPT_CASES
from tests.access_matrix.questions import QUESTION_CASES
from tests.access_matrix.servers import UPSTREAM_CASES
from tests.access_matrix.skills import SKILL_CASES
from tests.access_matrix.transfers import TRANSFER_CASES

CASES = [
    *(*CONVERSATION_CASES, *ORGANIZATION_CASES, *PROJECT_CASES, *EXPORT_CASES, *QUESTION_CASES),
    *(*IDENTITY_CASES, *PARTICIPANT_CASES, *PROMPT_CASES, *PRESET_CASES, *FEEDBACK_CASES),
    *SKILL_CASES,
    *(*TRANSFER_CASES, *PEOPLE_CASES, *UPSTREAM_CASES, *ACCESS_REASON_CASES),
]

# Prefixes of routes with access tests in another folder.
TESTED_ELSEWHERE: dict[str, str] = {
    "admin:": "tests/administration",
}
