"""A pseudo-language: every message longer, in letters that no message of ours has.

What a page shows in plain letters was not translated; what breaks at this length would break in
German. The messages are read by `makemessages` from the source, so the catalogue is never stale.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import polib

from tests.support.processes.site import ROOT, environment

LANGUAGE = "en-xa"
_FOLDER = "en_XA/LC_MESSAGES"
_LETTERS = str.maketrans(
    "abcdefghijklmnoprstuvwyzABCDEFGHIJKLMNOPRSTUVWYZ",
    "áƀçďéƒǧĥíĵķĺɱñóƥřšţúṽŵýžÁƁÇĎÉƑǦĤÍĴĶĹṀÑÓƤŘŠŢÚṼŴÝŽ",
)
# Placeholders, entities and tags stay as they are.
_FIXED = re.compile(r"(%\(\w+\)[sd]|%[sd%]|\{\w*\}|&\w+;|<[^>]+>)")
# German is longer by about this share, short labels by more.
GROWTH = 0.4
# Long compounds have about as many letters. A paragraph's growth in one piece would be wider than a phone.
LONGEST_WORD = 20


def pseudo(message: str) -> str:
    """The message in the pseudo-language; spaces and line breaks around it are kept."""
    words = message.strip()
    accented = "".join(
        part if _FIXED.fullmatch(part) else part.translate(_LETTERS) for part in _FIXED.split(words)
    )
    length = max(1, round(len(_FIXED.sub("", words)) * GROWTH))
    padding = " ".join(textwrap.wrap("~" * length, LONGEST_WORD))
    return message.replace(words, f"⟦{accented} {padding}⟧", 1) if words else message


def write_catalogues(folder: Path) -> Path:
    """Catalogues of templates, code and scripts in ``folder/locale``; needs the gettext programs."""
    # The command writes beside the source that it reads.
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "vendor", "data", "migrations")
    for part in ("chat", "project", "static", "templates"):
        shutil.copytree(ROOT / part, source / part, ignore=ignored)
    shutil.copy(ROOT / "manage.py", source)
    for domain in ("django", "djangojs"):
        subprocess.run(
            [
                *(sys.executable, "manage.py", "makemessages", "--locale", "en_XA"),
                *("--domain", domain, "--no-obsolete"),
            ],
            cwd=source,
            env=environment(folder),
            check=True,
            capture_output=True,
        )
        _translate(source / "locale" / _FOLDER / f"{domain}.po")
    shutil.copytree(source / "locale", folder / "locale", dirs_exist_ok=True)
    shutil.rmtree(source)
    return folder / "locale"


def _translate(path: Path) -> None:
    """Fills a catalogue, and writes its compiled form beside it."""
    if not path.exists():
        return
    catalogue = polib.pofile(str(path))
    for entry in catalogue:
        if entry.msgid_plural:
            entry.msgstr_plural = {0: pseudo(entry.msgid), 1: pseudo(entry.msgid_plural)}
        else:
            entry.msgstr = pseudo(entry.msgid)
        entry.flags = [flag for flag in entry.flags if flag != "fuzzy"]
    catalogue.metadata["Plural-Forms"] = "nplurals=2; plural=(n != 1);"
    catalogue.metadata["Content-Type"] = "text/plain; charset=UTF-8"
    catalogue.save_as_mofile(str(path.with_suffix(".mo")))
