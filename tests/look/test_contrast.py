"""Every pair of colours that text is made of can be read, in both schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings

from tests.look.contrast import contrast, linear_rgb, schemes

SCHEMES = schemes((Path(settings.BASE_DIR) / "static/css/tokens.css").read_text())
SURFACES = ("surface", "surface-2", "surface-3")
SOFT = ("accent-soft", "good-soft", "wait-soft", "bad-soft")
AAA = 7.0
AA = 4.5

PAIRS = [
    *[("ink", surface, AAA) for surface in (*SURFACES, *SOFT)],
    *[("ink-2", surface, AAA) for surface in SURFACES],
    *[("ink-2", surface, AA) for surface in SOFT],
    *[("ink-3", surface, AA) for surface in SURFACES],
    *[(name, on, AA) for name in ("accent", "good", "wait", "bad") for on in SURFACES],
    *[(name, f"{name}-soft", AA) for name in ("accent", "good", "wait", "bad")],
    ("accent-ink", "accent", AA),
]


def test_black_on_white_is_the_known_ratio() -> None:
    assert contrast((0, 0, 0), (1, 0, 0)) == pytest.approx(21, abs=0.01)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("text", "ground", "least"), PAIRS)
def test_text_can_be_read(scheme: str, text: str, ground: str, least: float) -> None:
    colours = SCHEMES[scheme]

    assert contrast(colours[text], colours[ground]) >= least


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_colour_exists_in_srgb(scheme: str) -> None:
    outside = {
        name
        for name, colour in SCHEMES[scheme].items()
        if not all(-0.002 <= part <= 1.002 for part in linear_rgb(colour))
    }

    assert outside == set()
