"""Reports why this Python can't run Tributary, for `make`. It must run on older Pythons, too."""

import sys

# As in pyproject.toml and README.md. Newer versions may work; these are tested.
OLDEST = (3, 11)
NEWEST_TESTED = (3, 13)


def dotted(version):
    return ".".join(str(number) for number in version[:3])


def refusal():
    found = "%s (%s)" % (dotted(sys.version_info), sys.executable)  # noqa: UP031
    if sys.version_info < OLDEST:
        is_environment = sys.prefix != getattr(sys, "base_prefix", sys.prefix)
        way = "Run `make clean`, then choose one" if is_environment else "Choose one"
        return "PYTHON must be Python %s to %s, not %s. %s, for example PYTHON=python3.12." % (  # noqa: UP031
            dotted(OLDEST),
            dotted(NEWEST_TESTED),
            found,
            way,
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        return (
            "PYTHON must have the modules venv and ensurepip; %s lacks %s. On Debian and Ubuntu, run "  # noqa: UP031
            "`apt install python%s-venv`." % (found, error.name, dotted(sys.version_info[:2]))
        )
    return ""


if __name__ == "__main__":
    reason = refusal()
    if reason:
        sys.stderr.write(reason + "\n")
        sys.exit(2)
