"""The page of figures, as Prometheus reads it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from chat import metrics


def value(name: str, **labels: str) -> float:
    """One series, 0 if it is not there yet."""
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return 0.0


class Change:
    """How far each series has moved since this was made."""

    def __init__(self) -> None:
        self._before = self._read()

    @staticmethod
    def _read() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        return {
            (sample.name, frozenset(sample.labels.items())): float(sample.value)
            for family in text_string_to_metric_families(metrics.exposition().decode())
            for sample in family.samples
        }

    def of(self, name: str, **labels: str) -> float:
        key = name, frozenset(labels.items())
        return self._read().get(key, 0.0) - self._before.get(key, 0.0)
