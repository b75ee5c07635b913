"""The library of skills: import with its preview, versions, people who change the same skill, and its files."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat.files.purge import erase_unused
from chat.files.storage import stored_bytes
from chat.models import (
    AuditEvent,
    FileContent,
    Project,
    Skill,
    SkillContent,
    SkillUpload,
    Team,
    User,
)
from chat.skills import actions
from chat.skills.archive import read_upload
from chat.skills.manifest import FILE_NAME
from tests.skills.packages import FILES, TEXT, WEEKLY, skill_text, zip_of
from tests.support.rooms import get_page

pytestmark = pytest.mark.databases(only="sqlite")


def posted(client: Client, route: str, *args: Any, **data: Any) -> Any:
    return client.post(reverse(route, args=args), data)


def uploaded(client: Client, body: bytes = WEEKLY, name: str = "weekly.zip") -> Any:
    return posted(client, "skill_import", file=SimpleUploadedFile(name, body))


def imported(client: Client, body: bytes = WEEKLY, **data: Any) -> Skill:
    assert uploaded(client, body).status_code == 302
    names = [each.manifest.name for each in read_upload(body).skills]
    response = posted(client, "skill_preview", **{"skills": names, **data})
    assert response.status_code == 302, response.content.decode()
    return Skill.objects.latest("pk")


def page_of(client: Client, route: str, skill: Skill, query: str = "") -> html.HtmlElement:
    return get_page(client, reverse(route, args=[skill.public_id]) + query)


def words_of(page: html.HtmlElement) -> str:
    (main,) = page.xpath("//main")
    return " ".join(main.text_content().split())


def numbers(skill: Skill) -> list[int]:
    return list(skill.versions.values_list("number", flat=True))


# --- import ---------------------------------------------------------------------------------------


def test_nothing_is_imported_before_the_preview_is_confirmed(as_alice: Client, alice: User) -> None:
    response = uploaded(as_alice, name="week\u202ely.zip")

    assert response.url == reverse("skill_preview")
    words = words_of(get_page(as_alice, response.url))
    assert "1 skill in weekly.zip" in words
    for shown in (
        "Writes the weekly report of the lock.",
        "scripts/measure.py",
        "Scripts are shown, never run.",
        "which is ignored: Bash(git:*) Read",
        "1.10",
    ):
        assert shown in words
    assert not Skill.objects.exists()
    confirmed = posted(as_alice, "skill_preview", skills="weekly-report")
    skill = Skill.objects.get()
    assert confirmed.url == reverse("skill", args=[skill.public_id])
    assert (skill.owner, skill.name, numbers(skill)) == (alice, "weekly-report", [1])
    assert skill.versions.get().text == TEXT
    assert not SkillUpload.objects.exists()
    assert get_page(as_alice, "/skills/").text_content().count("weekly-report") == 1


def test_canceled_import_leaves_nothing(as_alice: Client) -> None:
    uploaded(as_alice)

    assert posted(as_alice, "skill_import_cancel").status_code == 302

    assert not SkillUpload.objects.exists()
    assert not Skill.objects.exists()
    assert as_alice.get(reverse("skill_preview")).status_code == 302


def test_what_is_wrong_with_a_file_is_said(as_alice: Client) -> None:
    refused = uploaded(as_alice, zip_of({"a/SKILL.md": skill_text("A")}))
    missing = posted(as_alice, "skill_import")

    assert (refused.status_code, missing.status_code) == (422, 422)
    assert "a: The name in SKILL.md must have" in refused.content.decode()
    assert "Choose a file." in missing.content.decode()
    assert not SkillUpload.objects.exists()


def test_uploads_that_nobody_confirms_go(as_alice: Client, as_bob: Client, alice: User) -> None:
    uploaded(as_alice)
    SkillUpload.objects.update(created_at=timezone.now() - actions.UPLOAD_LASTS)

    uploaded(as_bob)
    uploaded(as_bob)

    assert [each.user.name for each in SkillUpload.objects.all()] == ["Bob"]


def test_some_skills_of_a_file_for_a_team(as_alice: Client, team: Team) -> None:
    body = zip_of({f"{name}/SKILL.md": skill_text(name) for name in ("a", "b", "c")})
    place = f"team:{team.public_id}"

    uploaded(as_alice, body)
    none = posted(as_alice, "skill_preview", place=place)
    posted(as_alice, "skill_preview", place=place, skills=["a", "c"])

    assert none.status_code == 422
    assert "Choose a skill to import." in none.content.decode()
    assert [(each.name, each.team) for each in Skill.objects.order_by("name")] == [
        ("a", team),
        ("c", team),
    ]
    assert (
        list(AuditEvent.objects.values_list("verb", "target")) == [("skill.created", team.name)] * 2
    )


def test_import_under_the_same_name_is_a_new_version(
    as_alice: Client, as_bob: Client, team: Team
) -> None:
    place = f"team:{team.public_id}"
    skill = imported(as_alice, place=place)
    files = {"weekly-report/SKILL.md": TEXT, "weekly-report/new.md": "New."}

    uploaded(as_bob, zip_of(files))
    assert f"There is a skill with this name: {team}" in words_of(
        get_page(as_bob, reverse("skill_preview"))
    )
    imported(as_bob, zip_of(files), place=place)
    again = imported(as_bob, zip_of(files), place=place)
    own = imported(as_bob, zip_of(files))

    # The same content is no version.
    assert (again, numbers(skill), own.owner.name) == (again, [2, 1], "Bob")
    words = words_of(page_of(as_alice, "skill_versions", skill))
    assert "Version 2Bob" in words
    assert "new.md" in words
    posted(as_alice, "skill_use_version", skill.public_id, number="1")
    assert [each["path"] for each in skill.versions.first().files] == sorted(FILES)
    assert [each.verb for each in AuditEvent.objects.order_by("pk")] == [
        "skill.created",
        "skill.changed",
        "skill.changed",
    ]


def test_limits_of_a_place(as_alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MOST_SKILLS", 1)
    monkeypatch.setattr(actions, "VERSIONS_BYTES", 30)
    imported(as_alice, zip_of({"a/SKILL.md": skill_text("a"), "a/x": "x" * 20}))

    uploaded(as_alice, zip_of({"b/SKILL.md": skill_text("b")}))
    many = posted(as_alice, "skill_preview", skills="b")
    uploaded(as_alice, zip_of({"a/SKILL.md": skill_text("a"), "a/y": "y" * 20}))
    large = posted(as_alice, "skill_preview", skills="a")

    assert "up to 1 skill" in many.content.decode()
    assert "Delete the skill, then import it again." in large.content.decode()
    assert [numbers(each) for each in Skill.objects.all()] == [[1]]


def test_own_skills_take_up_room_and_those_of_teams_do_not(
    as_alice: Client, alice: User, team: Team, settings: Any
) -> None:
    settings.STORED_BYTES_PER_PERSON = 30
    imported(as_alice, zip_of({"a/SKILL.md": skill_text("a"), "a/x": "x" * 20}))
    assert stored_bytes(alice) == 20

    larger = zip_of({"b/SKILL.md": skill_text("b"), "b/x": "x" * 20, "b/y": "y" * 20})
    uploaded(as_alice, larger)
    refused = posted(as_alice, "skill_preview", skills="b")
    imported(as_alice, larger, place=f"team:{team.public_id}")

    assert "There is no room for this" in refused.content.decode()
    assert stored_bytes(alice) == 20


# --- one skill ------------------------------------------------------------------------------------


def test_page_shows_instructions_and_files_as_text(as_alice: Client) -> None:
    text = skill_text(body="# Title\n\n<script>alert(1)</script> **bold**\n")
    script = b"print('<script>alert(2)</script>')\n"
    skill = imported(as_alice, zip_of({"a/SKILL.md": text, "a/scripts/x y&z.py": script}))

    page = page_of(as_alice, "skill", skill)
    (link,) = page.xpath("//a[contains(@class, 'skill-path')]/@href")
    shown = get_page(as_alice, link)

    assert page.xpath("//main//div[@class='answer']//strong/text()") == ["bold"]
    assert not page.xpath("//main//script")
    assert not shown.xpath("//main//script")
    assert "alert(2)" in shown.xpath("//pre")[0].text_content()
    assert "Scripts are shown, never run." in words_of(shown)
    missing = reverse("skill_file", args=[skill.public_id]) + "?path=../x"
    assert as_alice.get(missing).status_code == 404


def test_file_that_is_no_text_is_in_the_download(as_alice: Client) -> None:
    skill = imported(as_alice)

    page = page_of(as_alice, "skill_file", skill, "?path=assets/lock.png")
    response = as_alice.get(reverse("skill_download", args=[skill.public_id]))

    assert "Preview isn’t available" in words_of(page)
    assert response["Content-Disposition"] == 'attachment; filename="weekly-report.zip"'
    (again,) = read_upload(response.content).skills
    assert (again.text, again.files) == (TEXT, FILES)
    assert "Weekly report" in words_of(page_of(as_alice, "skill_file", skill, f"?path={FILE_NAME}"))


def test_two_people_edit_it(as_alice: Client, as_bob: Client, team: Team) -> None:
    skill = imported(as_alice, place=f"team:{team.public_id}")
    text = TEXT.replace("weekly-report", "river-report")

    def edited(client: Client, text: str, known: int = 1) -> Any:
        return posted(client, "skill_edit", skill.public_id, text=text, known=known)

    assert edited(as_bob, text).status_code == 302
    late = edited(as_alice, TEXT + "By <i>Alice</i>.")
    wrong = edited(as_alice, "No front matter.", known=2)

    assert (late.status_code, wrong.status_code) == (422, 422)
    assert "Bob changed this skill meanwhile" in late.content.decode()
    assert "By &lt;i&gt;Alice&lt;/i&gt;." in late.content.decode()
    assert "must begin with its name" in wrong.content.decode()
    skill.refresh_from_db()
    assert (skill.name, numbers(skill)) == ("river-report", [2, 1])
    # The files stay.
    assert len(skill.versions.first().files) == 3
    # Another skill of the team may not get the same name.
    imported(as_alice, place=f"team:{team.public_id}")
    taken = edited(as_alice, TEXT, known=2)
    assert "There is another skill named “weekly-report” here." in taken.content.decode()
    assert numbers(skill) == [2, 1]


def test_bytes_go_with_the_last_skill_that_has_them(as_alice: Client, as_bob: Client) -> None:
    own, other = imported(as_alice), imported(as_bob)
    stored = set(FileContent.objects.values_list("pk", flat=True))

    posted(as_alice, "skill_delete", own.public_id)
    erase_unused()
    kept = set(FileContent.objects.values_list("pk", flat=True))
    posted(as_bob, "skill_delete", other.public_id)
    erase_unused()

    assert (len(stored), kept) == (3, stored)
    assert not FileContent.objects.exists()
    assert not SkillContent.objects.exists()


def test_skill_of_a_project_is_for_its_readers(
    as_alice: Client, as_bob: Client, alice: User, team: Team
) -> None:
    project = Project.objects.create(team=team, name="Lock", created_by=alice, access="members")
    project.memberships.create(user=alice, role="manager")
    skill = imported(as_alice, place=f"project:{project.public_id}")

    assert skill.project == project
    assert as_bob.get(reverse("skill", args=[skill.public_id])).status_code == 404
    assert "weekly-report" not in get_page(as_bob, "/skills/").text_content()
