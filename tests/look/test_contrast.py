"""Contrast of text and background colours in both color schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings

from tests.look.contrast import contrast, linear_rgb, schemes

SCHEMES = schemes((Path(settings.BASE_DIR) / "static/base/tokens.css").read_text())
SURFACES = ("surface", "surface-2", "surface-3")
SOFT = ("accent-soft", "good-soft", "wait-soft", "bad-soft")
AAA = 7.0
AA = 4.5

# Text colour, background, least contrast.
PAIRS = [
    *[("ink", surface, AAA) for surface in (*SURFACES, *SOFT)],
    *[("ink-2", surface, AAA) for surface in SURFACES],
    *[("ink-2", surface, AA) for surface in SOFT],
    *[("ink-3", surface, AA) for surface in SURFACES],
    *[(name, on, AA) for name in ("accent", "good", "wait", "bad") for on in SURFACES],
    *[(name, f"{name}-soft", AA) for name in ("accent", "good", "wait", "bad")],
    ("accent-ink", "accent", AA),
    ("ink", "mark", AAA),
    ("ink-2", "mark", AA),
]


def test_black_on_white_has_the_known_ratio() -> None:
    assert contrast((0, 0, 0), (1, 0, 0)) == pytest.approx(21, abs=0.01)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_enough_contrast(scheme: str) -> None:
    colours = SCHEMES[scheme]

    too_low = [
        (text, background, ratio)
        for text, background, least in PAIRS
        if (ratio := contrast(colours[text], colours[background])) < least
    ]

    assert too_low == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_colour_exists_in_srgb(scheme: str) -> None:
    outside = {
        name
        for name, colour in SCHEMES[scheme].items()
        if not all(-0.002 <= part <= 1.002 for part in linear_rgb(colour))
    }

    assert outside == set()
