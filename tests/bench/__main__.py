"""``python -m tests.bench [NAME …]``: all benchmarks, or those that are named.

``load`` and ``capacity`` take options behind their names: ``python -m tests.bench load --help``.
"""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from tests.bench import (  # noqa: E402 - Django first
    access,
    browser,
    capacity,
    enumeration,
    memory,
    presence,
    search,
    tools,
)
from tests.bench.load import command as load  # noqa: E402

BENCHMARKS = {
    "capacity": capacity.report,
    "answer": browser.answer_report,
    "rooms": browser.rooms_report,
    "search": search.report,
    "memory": memory.report,
    "access": access.report,
    "presence": presence.report,
    "tools": tools.report,
    "enumeration": enumeration.report,
}


def main(names: list[str]) -> int:
    if names[:1] == ["load"]:
        return load.main(names[1:])
    if names[:1] == ["capacity"]:
        return capacity.main(names[1:])
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        known = ", ".join([*BENCHMARKS, "load"])
        print(f"There is no benchmark {unknown[0]!r}; there are: {known}.")
        return 2
    for name in names or BENCHMARKS:
        print(BENCHMARKS[name](), end="\n\n")
    return 0 if names else load.main([])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
