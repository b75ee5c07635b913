"""The table of all metrics in the documentation, against the instruments themselves."""

from __future__ import annotations

import re
import tomllib

import pytest
from django.conf import settings
from prometheus_client.metrics import MetricWrapperBase

from chat.core import metrics
from chat.core.metrics import FastCounter, Reading
from project import VERSION

DOCUMENT = settings.BASE_DIR / "docs" / "metrics.md"
Instrument = MetricWrapperBase | FastCounter | Reading
Rows = dict[str, set[str]]


def instruments() -> Rows:
    """The labels of each metric by its name on the page."""
    found = [value for value in vars(metrics).values() if isinstance(value, Instrument)]
    return dict(map(described, found))


def described(instrument: Instrument) -> tuple[str, set[str]]:
    (family,) = instrument.describe()
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = getattr(instrument, "_labelnames", None) or getattr(instrument, "_labels", ())
    return name, set(labels)


def documented() -> Rows:
    text = DOCUMENT.read_text()
    rows = re.findall(r"^\| `(tributary_\w+)` \|([^|]*)\| (\w+) \| .+ \|$", text, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels, _ in rows}


def test_table_lists_every_metric_with_its_labels() -> None:
    assert documented() == instruments()


def test_alerts_name_existing_metrics() -> None:
    named = set(re.findall(r"tributary_\w+", DOCUMENT.read_text()))
    known = {f"{name}{suffix}" for name in instruments() for suffix in ("", "_bucket")}

    assert named <= known


UNITS = ("_seconds", "_bytes", "_total")
UNITLESS = (
    "_up",
    "_runs",
    "_runners",
    "_viewers",
    "_behind",
    "_broadcasters",
    "_calls",
    "_build",
    "_connections",
)


def test_metric_names_its_unit(subtests: pytest.Subtests) -> None:
    for name in sorted(instruments()):
        with subtests.test(msg=name):
            assert name.endswith(UNITS + UNITLESS)


def test_reported_version_is_that_of_the_package() -> None:
    package = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())

    assert package["project"]["version"] == VERSION
