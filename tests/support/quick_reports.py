"""What pytest and Django note while a test runs, without what no test looks at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from _pytest import subtests
from django.template.base import Template
from django.template.context import Context
from django.test import signals, utils


def note_less() -> None:
    """Call it before any test runs."""
    _Case.__exit__ = _leave  # type: ignore[method-assign]
    subtests.capturing_output = _with_its_test
    utils.instrumented_test_render = _render


_Case = subtests._SubTestContextManager
_leave_noting = _Case.__exit__


def _leave(
    case: Any,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
) -> bool:
    """A case that passes is reported nowhere; reports of thousands of them took a tenth of the time."""
    if error is None:
        case._exit_stack.close()
        return True
    return _leave_noting(case, kind, error, traceback)


@contextmanager
def _with_its_test(request: Any) -> Iterator[None]:
    """What a case prints is shown with its test, and needs no files of its own."""
    yield None


def _render(template: Template, context: Context) -> str:
    """Tests look at the context of a page, and never at those of what the page includes."""
    if context.template is template and hasattr(context, "_processors_index"):
        signals.template_rendered.send(sender=template, template=template, context=context)
    return template.nodelist.render(context)
