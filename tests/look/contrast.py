"""Contrast of two colours that are written as ``oklch(L C h)``, after WCAG 2.2."""

from __future__ import annotations

import math
import re

Colour = tuple[float, float, float]

COLOUR = r"oklch\(([\d.]+) ([\d.]+) ([\d.]+)\)"
DECLARATION = re.compile(rf"--([\w-]+):\s*light-dark\({COLOUR}, {COLOUR}\);")


def schemes(sheet: str) -> dict[str, dict[str, Colour]]:
    """The colours of the light scheme and of the dark one."""
    found = DECLARATION.findall(sheet)
    return {
        "light": {name: _colour(parts[:3]) for name, *parts in found},
        "dark": {name: _colour(parts[3:]) for name, *parts in found},
    }


def _colour(parts: list[str]) -> Colour:
    lightness, chroma, hue = map(float, parts)
    return lightness, chroma, hue


def linear_rgb(colour: Colour) -> Colour:
    """Linear sRGB by Björn Ottosson's matrices; outside 0…1 where sRGB has no such colour."""
    lightness, chroma, hue = colour
    a = chroma * math.cos(math.radians(hue))
    b = chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def luminance(colour: Colour) -> float:
    red, green, blue = (min(1.0, max(0.0, part)) for part in linear_rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
