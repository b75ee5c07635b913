#!/usr/bin/env python
"""Django's command line for this project."""

import gc
import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

# As in `project.startup`: a retry would not help.
REFUSED = 2

if __name__ == "__main__":
    # Loading the application and migrating make many objects and little garbage. With Python's threshold of
    # 700 objects, collecting took a sixth of the time of the one and a fifth of the other.
    gc.set_threshold(20_000)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    # Without this, anyone could read the SQLite file if others may enter DATA_DIR.
    os.umask(0o077)
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(REFUSED)
