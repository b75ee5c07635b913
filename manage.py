#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

# As in `project.startup`: a retry would not help.
REFUSED = 2

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    # Without this, anyone could read the SQLite file if others may enter DATA_DIR.
    os.umask(0o077)
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(REFUSED)
