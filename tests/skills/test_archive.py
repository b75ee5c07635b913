"""Skills in uploaded files: what is read of them, what is refused, and the same files as a ZIP file again."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress

import pytest

from chat.core.errors import ActionRefused
from chat.skills import archive
from chat.skills.archive import as_zip, read_upload
from chat.skills.front_matter import read
from chat.skills.manifest import FILE_NAME, read_manifest
from tests.skills.packages import FILES, TEXT, WEEKLY, encrypted, skill_text, zip_of, zip_with_link

MEGABYTE = 1024 * 1024


def front(fields: str) -> str:
    return f"---\n{fields}\n---\nDo it.\n"


def test_skill_is_read_with_its_files() -> None:
    contents = read_upload(WEEKLY)

    (found,) = contents.skills
    assert found.manifest.name == "weekly-report"
    assert found.manifest.description == "Writes the weekly report of the lock."
    assert found.manifest.body.startswith("# Weekly report\n")
    assert found.manifest.allowed_tools == "Bash(git:*) Read"
    # Numbers of YAML stay as they were written.
    assert found.manifest.facts == {"License": "MIT", "author": "river", "version": "1.10"}
    assert (found.text, dict(found.files), contents.left_out) == (TEXT, FILES, 0)


def test_the_same_files_are_downloaded() -> None:
    (found,) = read_upload(WEEKLY).skills
    body = as_zip("weekly-report", {FILE_NAME: found.text.encode(), **found.files})

    (again,) = read_upload(body).skills
    assert (again.text, again.files) == (found.text, found.files)
    assert as_zip("weekly-report", {FILE_NAME: again.text.encode(), **again.files}) == body
    with zipfile.ZipFile(io.BytesIO(body)) as made:
        assert made.namelist()[0] == "weekly-report/SKILL.md"


def test_several_skills_and_what_belongs_to_none() -> None:
    contents = read_upload(
        zip_of(
            {
                "all/README.md": "About.",
                "all/b/SKILL.md": skill_text("b"),
                "all/a/SKILL.md": skill_text("a"),
                "all/a/examples/SKILL.md": "An example.",
                "all/a/nested.zip": WEEKLY,
                "__MACOSX/all/a/._SKILL.md": b"\x00",
                "all/.DS_Store": b"\x00",
            }
        )
    )

    assert [(each.folder, sorted(each.files)) for each in contents.skills] == [
        ("all/a", ["examples/SKILL.md", "nested.zip"]),
        ("all/b", []),
    ]
    assert contents.left_out == 1


def test_single_file_and_its_bytes_are_kept() -> None:
    text = "\ufeff" + skill_text().replace("\n", "\r\n")

    (found,) = read_upload(text.encode()).skills

    assert (found.text, found.manifest.body) == (text, "Do it.\r\n")


A = {"a/SKILL.md": skill_text("a")}
HOSTILE: dict[str, tuple[bytes, str]] = {
    "no archive": (b"PK\x03\x04 and nothing else", "damaged"),
    "cut": (WEEKLY[: len(WEEKLY) // 2], "damaged"),
    "flipped": (WEEKLY[:60] + bytes([WEEKLY[60] ^ 255]) + WEEKLY[61:], "damaged"),
    "empty": (b"", "must begin"),
    "text": (b"Hello", "must begin"),
    "no text": (b"\xff\xfe\x00", "isn’t text in UTF-8"),
    "no skill": (zip_of({"a/skill.txt": "x"}), "No SKILL.md"),
    "bomb": (zip_of({**A, "a/zeros": bytes(21 * MEGABYTE)}), "up to 20 MB"),
    "large skill": (
        zip_of({**A, "a/zeros": bytes(9 * MEGABYTE)}),
        "a: A skill can have up to 8 MB",
    ),
    "many files": (
        zip_of({**A, **{f"a/{number}": "x" for number in range(201)}}),
        "up to 200 files",
    ),
    "many entries": (zip_of({str(number): "x" for number in range(1001)}), "up to 1,000"),
    "many skills": (
        zip_of({f"s{n}/SKILL.md": skill_text(f"s{n}") for n in range(21)}),
        "up to 20 skills",
    ),
    "same names": (
        zip_of({**A, "b/SKILL.md": skill_text("a")}),
        "Two skills in this file have the name “a”",
    ),
    "encrypted": (encrypted(WEEKLY), "password"),
    "method": (zip_of(A, method=zipfile.ZIP_LZMA), "unusual way"),
    "link": (zip_with_link(), "“a/passwords” in the ZIP file is a link"),
    "device": (zip_of(A, mode=0o020644), "is a link"),
    "above": (zip_of({**A, "a/../../x": "x"}), "can’t be used"),
    "dot": (zip_of({**A, "a/./x": "x"}), "can’t be used"),
    "absolute": (zip_of({**A, "/etc/passwd": "x"}), "can’t be used"),
    "drive": (zip_of({**A, "C:/x": "x"}), "can’t be used"),
    "backslash": (zip_of({**A, "a\\..\\x": "x"}), "can’t be used"),
    "hidden letter": (zip_of({**A, "a/\u202egpj.exe": "x"}), "can’t be used"),
    "control": (zip_of({**A, "a/x\ny": "x"}), "can’t be used"),
    "trailing dot": (zip_of({**A, "a/x.": "x"}), "can’t be used"),
    "long name": (zip_of({**A, f"a/{'x' * 201}": "x"}), "can’t be used"),
    "deep": (zip_of({**A, f"a/{'x/' * 9}y": "x"}), "can’t be used"),
    "case": (zip_of({**A, "a/Read.md": "x", "a/read.MD": "y"}), "is twice"),
    "normal form": (zip_of({**A, "a/é": "x", "a/e\u0301": "y"}), "is twice"),
    "file and folder": (zip_of({**A, "a/X": "x", "a/x/y": "y"}), "is a file and a folder"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_a_sentence(name: str) -> None:
    body, sentence = HOSTILE[name]

    with pytest.raises(ActionRefused, match=sentence.replace("(", r"\(")):
        read_upload(body)


def test_file_that_is_too_large_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "UPLOAD_BYTES", 100)

    with pytest.raises(ActionRefused, match="too large"):
        read_upload(WEEKLY)


NAME = "name: a\ndescription: b\n"
MANIFESTS: dict[str, tuple[str, str]] = {
    "none": ("# Title", "must begin with its name"),
    "not closed": ("---\nname: a\n", "second line"),
    "long": (front("x: " + "a" * 16_000), "too long"),
    "no name": (front("description: b"), "has no name"),
    "no description": (front("name: a"), "has no description"),
    "blank description": (front('name: a\ndescription: "\\u202e "'), "has no description"),
    "upper case": (front("name: Report\ndescription: b"), "lowercase letters"),
    "two hyphens": (front("name: a--b\ndescription: b"), "single hyphens"),
    "path": (front("name: ../a\ndescription: b"), "lowercase letters"),
    "long name": (front(f"name: {'a' * 65}\ndescription: b"), "up to 64"),
    "long description": (front(f"name: a\ndescription: {'b' * 1025}"), "more than 1024"),
    "long compatibility": (front(f"{NAME}compatibility: {'b' * 501}"), "more than 500"),
    "list for a name": (front("name: [a]\ndescription: b"), "“name” in SKILL.md must be text"),
    "list": (front("- a"), "must begin with fields"),
    "nothing": (front(""), "must begin with fields"),
    "twice": (front(f"{NAME}name: c"), "is twice"),
    "broken": (front('name: a\ndescription: "b'), "Line 3"),
    "tab": (front("name: a\n\tdescription: b"), "Line 3"),
    "bell": (front(f"{NAME}x: \x07"), "isn’t valid YAML"),
    "tag": (front(f"{NAME}x: !!python/object/apply:os.system [ls]"), "tags"),
    "anchor": (front(f"{NAME}x: &x [a]\ny: [*x, *x]"), "anchors"),
    "alias": (front(f"{NAME}y: *x"), "anchors"),
    "merge": (front(f"{NAME}x: {{<<: *y}}"), "anchors"),
    "deep": (front(f"{NAME}x: {'[' * 200}{']' * 200}"), "too complex"),
    "many": (front(f"{NAME}x: [{'a, ' * 2000}]"), "too complex"),
    "documents": (front("name: a\n... \n--- \ndescription: b"), "has no description|too complex"),
    "key": (front(f"{NAME}? [a]\n: b"), "must be text"),
    "nul": (skill_text(body="\x00"), "isn’t text"),
    "long text": (skill_text(body="a" * 200_000), "too long"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_that_are_refused(name: str) -> None:
    text, sentence = MANIFESTS[name]

    with pytest.raises(ActionRefused, match=sentence):
        read_manifest(text)


def test_forms_of_yaml_that_people_write() -> None:
    text = (
        'name: "a"  # a comment\n'
        "description: 'It''s: \"quoted\"'\n"
        "compatibility: |\n  Two\n  lines\n"
        "tags: [one, 'two']\n"
        "on: yes\n"
        "metadata: {version: 2024-01-01}\n"
    )

    assert read(text) == {
        "name": "a",
        "description": 'It\'s: "quoted"',
        "compatibility": "Two\nlines\n",
        "tags": ["one", "two"],
        "on": "yes",
        "metadata": {"version": "2024-01-01"},
    }


@pytest.mark.parametrize(
    "piece", ["[", "{", "- ", "? ", "a: ", "'", '"', "&a ", "!a ", "|\n", "#", "%"]
)
def test_largest_front_matter_of_one_sign_ends(piece: str) -> None:
    # What takes time in proportion to the square would take hours.
    with suppress(ActionRefused):
        read((piece * 16_000)[:15_900])
