"""Formats of well-known providers' keys, for the removal of secrets from logs, errors and
recordings.

A new format is one more line here. It must not import Django, like everything that uses it.
"""

import re

# A word begins here, also after a line break as JSON writes it.
WORD_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=\\u[0-9a-fA-F]{4}))"
# The beginning of a key in small letters, by which most texts are skipped, and the whole key.
_FORMATS = {
    **{
        prefix: rf"{prefix}[-_][A-Za-z0-9_-]{{20,}}"
        for prefix in (
            *("sk", "pk", "rk", "csk", "xai", "gsk", "hf", "gho", "ghp", "ghs", "ghu", "ghr"),
            *("glpat", "r8", "nvapi", "pplx", "npm"),
        )
    },
    "xox": r"xox[a-z][-_][A-Za-z0-9_-]{20,}",
    "github_pat_": r"github_pat_[A-Za-z0-9_]{20,}",
    "akia": r"AKIA[A-Z0-9]{16}",
    "asia": r"ASIA[A-Z0-9]{16}",
    "aiza": r"AIza[A-Za-z0-9_-]{30,}",
    "ya29": r"ya29\.[A-Za-z0-9_-]{20,}",
    # A signed token (JWT).
    "eyj": r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
}
BEGINNINGS = tuple(_FORMATS)
KEY = re.compile(rf"{WORD_START}(?:{'|'.join(_FORMATS.values())})")
