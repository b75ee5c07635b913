"""Skills of people and teams for tests."""

from __future__ import annotations

from chat.models import Project, Skill, Team, User
from chat.skills.actions import import_skills
from chat.skills.archive import read_upload
from tests.skills.packages import WEEKLY, skill_text


def make_skill(
    user: User,
    place: Team | Project | None = None,
    *,
    name: str = "",
    body: str = "Do it.\n",
) -> Skill:
    """The weekly report, or a skill of another name with nothing but instructions."""
    content = skill_text(name, body).encode() if name else WEEKLY
    (skill,) = import_skills(user, place, read_upload(content).skills)
    return skill
