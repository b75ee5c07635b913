"""Skills for the screens: of a person and of a team, one with scripts and versions, and an upload."""

from __future__ import annotations

from pathlib import Path

TEXT = """\
---
name: weekly-report
description: Writes the weekly report of the lock from the gauge readings. Use it when somebody asks for the report
  of a week, or how the water was.
license: MIT
compatibility: Needs the tool read_gauge
metadata:
  author: Bob Field
  version: "1.1"
allowed-tools: Bash(python:*) Read
---
# Weekly report

1. Read the levels of the week, each day at **6:00** and **18:00**.
2. Compare them with [the thresholds](references/thresholds.md).
3. Begin with the highest level:

> Monday 6:00, 4.20 m, *high*

| Level | Word |
| --- | --- |
| above 4 m | high |
| below 2 m | low |
"""
SCRIPT = '''"""Draws the levels of a week."""

import sys

for line in sys.stdin:
    level = float(line)
    print("#" * round(level * 10), level)
'''


def write_skills(links: dict[str, str], fake_url: str) -> None:
    from chat.models import Team, User
    from chat.skills.actions import change_text, import_skills, store_upload
    from chat.skills.archive import as_zip, read_upload

    alice, bob = User.objects.get(name="Alice"), User.objects.get(name="Bob")
    river = Team.objects.get(name="River")
    files = {
        "SKILL.md": TEXT.encode(),
        "references/thresholds.md": b"# Thresholds\n\nAbove 4 m: high.\n",
        "scripts/draw_levels.py": SCRIPT.encode(),
        "assets/lock.svg": Path("static/icons.svg").read_bytes(),
    }
    body = as_zip("weekly-report", files)
    (report,) = import_skills(bob, river, read_upload(body).skills)
    change_text(alice, report, known=1, text=TEXT.replace("1.1", "1.2") + "\nAt most one page.\n")
    letter = "---\nname: visitor-letter\ndescription: Answers letters of visitors, friendly and short.\n---\nBe kind.\n"
    import_skills(alice, None, read_upload(letter.encode()).skills)
    store_upload(alice, "weekly-report.zip", body)
    links["skill"] = f"/skills/{report.public_id}/"
