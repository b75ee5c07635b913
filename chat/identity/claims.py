"""Claims of a person as values: address, name, groups. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from chat.core.text import check_name, one_line
from chat.events import Json, JsonObject

# A directory may put a person into thousands of groups; rules name a few of them.
MOST_GROUPS = 1000
GROUP_LENGTH = 200
ADDRESS_LENGTH = 254
NAME_LENGTH = 80
_SEPARATORS = re.compile(r"[\s,]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person as a provider describes them. ``email`` is in small letters, and empty without a valid one."""

    sub: str
    sid: str = ""
    name: str = ""
    email: str = ""
    is_proven: bool = False
    groups: tuple[str, ...] = ()
    # The groups are in another place than the token, which Entra ID does for more than 200.
    lacks_groups: bool = False


def read_person(claims: JsonObject, *, groups_claim: str, proves_addresses: bool) -> Person:
    """The person whom valid claims describe. ``proves_addresses``: all addresses of the provider are proven."""
    email = _address(claims.get("email"))
    said = claims.get("email_verified")
    # Some providers send the text "true". The number 1 equals True in Python.
    is_verified = said is True or said == "true"
    return Person(
        sub=str(claims["sub"]),
        sid=_short(claims.get("sid")),
        name=_name(claims),
        email=email,
        is_proven=bool(email) and (is_verified or proves_addresses),
        groups=groups_at(claims, groups_claim),
        lacks_groups=_is_overage(claims, groups_claim),
    )


def groups_at(claims: JsonObject, path: str) -> tuple[str, ...]:
    """The groups at a path such as ``groups`` or ``realm_access.roles``: the texts of a list, the names of its
    objects, the keys of an object (as roles of Zitadel), or the words of a text."""
    found = value_at(claims, path)
    entries: Sequence[Json]
    if isinstance(found, str):
        entries = _SEPARATORS.split(found)
    elif isinstance(found, dict):
        entries = list(found)
    else:
        entries = found if isinstance(found, list) else []
    names = [each.get("name") if isinstance(each, dict) else each for each in entries[:MOST_GROUPS]]
    # Names stay as they are: "admins " is another group than "admins", and perhaps anybody can found it.
    valid = (
        name for name in names if isinstance(name, str) and name.strip() and name.isprintable()
    )
    return tuple(dict.fromkeys(name for name in valid if len(name) <= GROUP_LENGTH))


def value_at(claims: JsonObject, path: str) -> Json:
    """The value at a path. A name may contain dots itself, as addresses do: the longest one that is there counts."""
    if not path:
        return None
    if path in claims:
        return claims[path]
    names = path.split(".")
    for length in range(len(names) - 1, 0, -1):
        inner = claims.get(".".join(names[:length]))
        if isinstance(inner, dict):
            return value_at(inner, ".".join(names[length:]))
    return None


def is_below(group: str, rule: str) -> bool:
    """Returns whether a group is the one of a rule, or below it in a path such as ``/sales/europe``."""
    group, rule = group.removeprefix("/"), rule.strip("/")
    is_named = group == rule or group.startswith(f"{rule}/")
    return bool(rule) and is_named and not group.endswith("/")


def is_of_domains(email: str, domains: str) -> bool:
    """Returns whether an address is of one of the domains (by spaces); without any, all are."""
    allowed = domains.lower().split()
    return not allowed or email.rpartition("@")[2].lower() in allowed


def _is_overage(claims: JsonObject, path: str) -> bool:
    if not path or value_at(claims, path) is not None:
        return False
    elsewhere = claims.get("_claim_names")
    return claims.get("hasgroups") in (True, "true") or (
        isinstance(elsewhere, dict) and path in elsewhere
    )


def _address(value: Json) -> str:
    if not isinstance(value, str) or len(value) > ADDRESS_LENGTH:
        return ""
    email = value.strip().lower()
    if not value.strip().rpartition("@")[0].isascii():
        # "K" (U+212A) is "k" in small letters, and databases take "ı" for "I": it would be the address of another
        # person.
        return ""
    try:
        validate_email(email)
    except ValidationError:
        return ""
    return email


def _name(claims: JsonObject) -> str:
    parts = [claims.get(name) for name in ("given_name", "family_name")]
    both = " ".join(each for each in parts if isinstance(each, str))
    for each in (claims.get("name"), both, claims.get("preferred_username")):
        name = one_line(each)[:NAME_LENGTH].strip() if isinstance(each, str) else ""
        try:
            check_name(name)
        except ValidationError:
            continue
        if name:
            return name
    return ""


def _short(value: Json) -> str:
    is_short = isinstance(value, str) and len(value) <= 255 and value.isprintable()
    return str(value) if is_short else ""
