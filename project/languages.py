"""The languages that have a catalog in one of the translation folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from django.conf.locale import LANG_INFO
from django.utils.translation.trans_real import to_language


def installed(folders: Iterable[Path]) -> list[tuple[str, str]]:
    """Code and native name of each language with a compiled catalog, except English."""
    codes = {
        to_language(catalogue.parent.parent.name)
        for folder in folders
        for catalogue in folder.glob("*/LC_MESSAGES/django.mo")
    }
    return [(code, _own_name(code)) for code in sorted(codes - {"en"})]


def _own_name(code: str) -> str:
    return str(LANG_INFO.get(code, {}).get("name_local", code))
