"""Reads settings from the environment, or from the file that ``NAME_FILE`` points to."""

import ipaddress
import json
import math
import os
import pwd
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from django.core.exceptions import ImproperlyConfigured

# Renamed settings (new name: old name). The old name is read for one more version.
RENAMED = {"MAX_CONCURRENT_REQUESTS": "PAGES_AT_ONCE"}


def renamed_in_use() -> dict[str, str]:
    """The settings in the environment that have an old name: the new name for each."""
    return {old: new for new, old in RENAMED.items() if os.environ.get(old)}


def text(name: str, default: str = "") -> str:
    if name in RENAMED and name not in os.environ and f"{name}_FILE" not in os.environ:
        name = RENAMED[name]
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE: {path}: {error.strerror}") from None
    return os.environ.get(name, default)


_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off")


def flag(name: str, default: bool) -> bool:
    value = text(name)
    if not value:
        return default
    if value.lower() not in (*_YES, *_NO):
        raise ImproperlyConfigured(f"{name} must be 1 or 0, not {value!r}")
    return value.lower() in _YES


def number(name: str, default: float, *, at_least: float = 0, at_most: float = math.inf) -> float:
    value = text(name)
    try:
        found = float(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number, not {value!r}") from None
    if not math.isfinite(found) or not at_least <= found <= at_most:
        bounds = (
            f"of at least {at_least:g}"
            if at_most == math.inf
            else f"from {at_least:g} to {at_most:g}"
        )
        raise ImproperlyConfigured(f"{name} must be a number {bounds}, not {value!r}")
    return found


def port(name: str, default: int) -> int:
    found = number(name, default)
    if found > 65535:
        raise ImproperlyConfigured(f"{name} must be a port from 0 to 65535, not {found:.0f}")
    return int(found)


def ports(name: str, default: str) -> list[int]:
    values = words(name, default)
    if any(not value.isdecimal() or int(value) > 65535 for value in values):
        raise ImproperlyConfigured(f"{name} must be ports, separated by commas, not {text(name)!r}")
    return [int(value) for value in values]


def choice(name: str, default: str, choices: Sequence[str]) -> str:
    value = text(name) or default
    if value not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


def folder(name: str, default: Path, *, files: Mapping[str, int]) -> Path:
    """A writable directory; it is created if it is missing. ``files`` maps files that may exist in
    it to the access that this process needs, because another user may have created them."""
    value = text(name) or str(default)

    def refused(reason: str) -> ImproperlyConfigured:
        return ImproperlyConfigured(
            f"{name}={value} is not usable by user {_user()}: {reason}. Choose a directory that "
            "this user can write to."
        )

    try:
        path = Path(value).resolve()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise refused("it is a file, not a directory") from None
    except (OSError, RuntimeError) as error:
        # A RuntimeError means a loop of symbolic links.
        raise refused(getattr(error, "strerror", None) or str(error)) from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise refused("it is not writable")
    for file, mode in files.items():
        if os.access(path / file, os.F_OK) and not os.access(path / file, mode):
            raise refused(f"its file {file} is not accessible")
    return path


def shared_folder(name: str) -> str:
    """A directory that exists already: an empty one in its place, as without a mount, would look as if
    all files were lost."""
    value = text(name)
    if not os.path.isdir(value) or not os.access(value, os.R_OK | os.W_OK | os.X_OK):
        raise ImproperlyConfigured(
            f"{name}={value} is not usable by user {_user()}: it is missing or not writable. Create "
            "or mount a directory that this user can write to."
        )
    return os.path.realpath(value)


def json_object(name: str) -> dict[str, object]:
    """A JSON object. Errors don't quote it, because it may contain a key."""
    try:
        found = json.loads(text(name) or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ImproperlyConfigured(f"{name} must be a JSON object")
    return found


class _Command(msgspec.Struct, forbid_unknown_fields=True):
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


_COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def command_lines(name: str) -> dict[str, tuple[tuple[str, ...], dict[str, str]]]:
    """For each name in a JSON object a program with its arguments, and what is added to its environment. Errors don't
    quote it, because it may contain a key."""
    try:
        found = msgspec.convert(json_object(name), dict[str, _Command])
    except msgspec.ValidationError:
        found = None
    if found is None or not all(map(_COMMAND_NAME.fullmatch, found)):
        raise ImproperlyConfigured(
            f'{name} must be like {{"files": {{"command": "npx", "args": ["…"], "env": {{}}}}}}: '
            "names of letters, digits, dots and hyphens, and no other members"
        )
    return {key: ((each.command, *each.args), each.env) for key, each in found.items()}


class _Provider(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    issuer: str
    client_id: str
    client_secret: str = ""
    scopes: str = "openid profile email"
    groups_claim: str = ""


_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


def identity_providers(name: str) -> dict[str, dict[str, str]]:
    """OpenID Connect providers by the name that they have in addresses. Errors don't quote them, because they may
    contain a secret."""
    try:
        found = msgspec.convert(json_object(name), dict[str, _Provider])
    except msgspec.ValidationError:
        found = None
    is_good = found is not None and all(
        _SLUG.fullmatch(slug)
        and each.name.strip()
        and each.client_id
        and each.issuer.startswith(("http://", "https://"))
        and "openid" in each.scopes.split()
        for slug, each in found.items()
    )
    if found is None or not is_good:
        raise ImproperlyConfigured(
            f'{name} must be like {{"keycloak": {{"name": "Keycloak", "issuer": "https://…", "client_id": "…", '
            '"client_secret": "…", "scopes": "openid profile email", "groups_claim": "groups"}}: names of small '
            "letters, digits and hyphens, and no other members"
        )
    return {slug: msgspec.structs.asdict(each) for slug, each in found.items()}


def _user() -> str:
    """The user of this process, as the system's own messages name one."""
    uid = os.geteuid()
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"with uid {uid}"


def time_zone(name: str, default: str) -> str:
    value = text(name) or default
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ImproperlyConfigured(f"{name}: unknown time zone {value!r}") from None
    return value


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str, default: str = "") -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Networks or single addresses, separated by commas."""
    try:
        return [ipaddress.ip_network(word, strict=False) for word in words(name, default)]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}") from None


def address(name: str, default: str = "", *, schemes: Sequence[str]) -> str:
    """The URL of a server, or an empty string. Errors don't quote it, because it may contain a
    password."""
    url = text(name, default)
    try:
        urlsplit(url).port  # noqa: B018 - reading it is the test
    except ValueError:
        raise ImproperlyConfigured(
            f"{name} is not a valid URL. Write special characters of its password as %XX."
        ) from None
    if url and urlsplit(url).scheme not in schemes:
        begins = " or ".join(f"{scheme}://" for scheme in schemes)
        raise ImproperlyConfigured(f"{name} must start with {begins}")
    return url


_USUAL_PORTS = {"postgres": 5432, "postgresql": 5432, "redis": 6379, "rediss": 6379}


def port_of(url: str) -> int | None:
    """The port in a URL, or the default port of its scheme; ``None`` if there is neither."""
    parts = urlsplit(url)
    return parts.port or _USUAL_PORTS.get(parts.scheme)


# The serialization of an origin (RFC 6454, section 6.1).
_ORIGIN = re.compile(r"https?://[^/?#@\s\\]+", re.ASCII)


def origin(name: str, value: str) -> str:
    """An origin: scheme, host and port. A trailing slash is removed."""
    found = value.strip().rstrip("/")
    try:
        has_host = bool(urlsplit(found).hostname)
        urlsplit(found).port  # noqa: B018 - reading it is the test
    except ValueError:
        has_host = False
    if not has_host or not _ORIGIN.fullmatch(found):
        raise ImproperlyConfigured(
            f"{name} must be an address such as https://tributary.example.org, without a path,"
            f" not {value!r}"
        )
    return found


def origins(name: str, default: str = "") -> list[str]:
    return [origin(name, word) for word in words(name, default)]


def name_of_interface(host: str) -> str:
    """The host name with which a browser on this machine reaches an interface."""
    if host in ("127.0.0.1", "0.0.0.0", "::1", "::"):  # noqa: S104
        return "localhost"
    return f"[{host}]" if ":" in host else host


def host_of(url: str) -> str:
    """The host in a URL, as in a Host header; empty if there is none."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return f"[{host}]" if ":" in host else host
