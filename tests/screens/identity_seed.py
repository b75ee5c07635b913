"""Signing in on the site of the screens: providers with groups and people, and accounts with a second factor."""

from __future__ import annotations

# The key that the authenticator apps of the accounts share.
TOTP_SECRET = "JBSWY3DPEHPK3PXP"


def come_from_a_company(links: dict[str, str], fake_url: str) -> None:
    """A provider that people use, one that answers here, and one that an administrator has only begun
    to set up."""
    from chat.identity.rights import apply_rights
    from chat.models import GroupRule, Identity, IdentityProvider, Team, TeamRole, User
    from tests.identity.fake_provider import CLIENT, SECRET

    river = Team.objects.get(name="River")
    used = IdentityProvider(
        slug="keycloak",
        name="Keycloak",
        issuer="https://login.example.com/realms/waterworks",
        client_id="tributary",
        is_enabled=True,
        groups_claim="groups",
        domains="example.com example.org",
        default_team=river,
    )
    used.set_secret("not a real secret")
    used.save()
    for claimed, role in (("/river", TeamRole.MEMBER), ("/river/admins", TeamRole.ADMIN)):
        GroupRule.objects.create(provider=used, claimed=claimed, team=river, role=role)
    GroupRule.objects.create(provider=used, claimed="/it", makes_administrator=True)
    for name, groups in (("Fatima Haddad", ["/river/admins"]), ("Georg", ["/river", "/divers"])):
        user = User.objects.get(name=name)
        Identity.objects.create(provider=used, sub=name, user=user, email=user.email, groups=groups)
        apply_rights(user)
    answering = IdentityProvider(
        slug="waterworks",
        name="Water Board of the Lower River (Entra ID)",
        issuer=links["provider"],
        client_id=CLIENT,
        is_enabled=True,
        groups_claim="groups",
    )
    answering.set_secret(SECRET)
    answering.save()
    GroupRule.objects.create(provider=answering, claimed="/river", team=river, role=TeamRole.MEMBER)
    begun = IdentityProvider.objects.create(
        slug="entra", name="Entra ID", issuer="http://127.0.0.1:9", client_id="tributary"
    )
    links["identity-provider"] = f"/settings/company-sign-in/{used.public_id}/"
    links["identity-provider-answering"] = f"/settings/company-sign-in/{answering.public_id}/"
    links["identity-provider-new"] = f"/settings/company-sign-in/{begun.public_id}/"


def protect_accounts(links: dict[str, str], fake_url: str) -> None:
    """Accounts with second factors: Vera has all kinds, of which one passkey was copied; Noor administers with
    an app only, and Pia has a passkey only."""
    from allauth.mfa.models import Authenticator
    from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
    from allauth.mfa.totp.internal.auth import TOTP
    from django.utils import timezone

    from chat.models import User

    vera = User.objects.get(name="Vera")
    noor, pia = (
        User.objects.create_user(f"{name.lower()}@example.org", None, name=name, **rights)
        for name, rights in (("Noor", {"is_staff": True, "is_superuser": True}), ("Pia", {}))
    )
    User.objects.filter(pk__in=(noor.pk, pia.pk)).update(password=vera.password)
    for person in (vera, noor):
        TOTP.activate(person, TOTP_SECRET)
    for person in (vera, noor, pia):
        RecoveryCodes.activate(person)
    keys = []
    for person, name, is_copied in (
        (vera, "Laptop", False),
        (vera, "Security key in the drawer of the lock keeper’s house", True),
        (pia, "Phone", False),
    ):
        keys.append(
            Authenticator.objects.create(
                user=person,
                type=Authenticator.Type.WEBAUTHN,
                data={"name": name, "credential": credential(name), "is_copied": is_copied},
                last_used_at=timezone.now(),
            )
        )
    links["passkey"] = f"/settings/two-step/passkeys/{keys[1].pk}/"


def credential(name: str) -> dict[str, object]:
    """A credential as a browser registers it, without an attestation (WebAuthn, section 8.7)."""
    import hashlib

    from fido2.cose import ES256
    from fido2.utils import websafe_encode
    from fido2.webauthn import (
        AttestationObject,
        AttestedCredentialData,
        AuthenticatorData,
        CollectedClientData,
    )

    number = hashlib.sha256(name.encode()).digest()
    key = ES256({1: 2, 3: -7, -1: 1, -2: number, -3: number})
    held = AttestedCredentialData.create(bytes(16), number, key)
    flags = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.AT
    said = AuthenticatorData.create(hashlib.sha256(b"localhost").digest(), flags, 0, held)
    client = CollectedClientData.create("webauthn.create", b"challenge", "http://localhost")
    response = {
        "clientDataJSON": websafe_encode(client),
        "attestationObject": websafe_encode(AttestationObject.create("none", said, {})),
    }
    return {
        "id": websafe_encode(number),
        "rawId": websafe_encode(number),
        "type": "public-key",
        "response": response,
        "clientExtensionResults": {},
    }


def forget_a_password(links: dict[str, str], fake_url: str) -> None:
    """A link with which somebody sets a new password. It would end with any change of their rights."""
    from urllib.parse import urlsplit

    from chat.accounts.adapter import make_reset_link
    from chat.models import User

    links["password-reset"] = urlsplit(make_reset_link(User.objects.get(name="Emil"))).path


def open_sessions() -> dict[str, str]:
    """Sessions of the people who were added for this."""
    from chat.models import User
    from tests.support.processes.seed import sign_in

    return {
        name: sign_in(User.objects.get(name=name))
        for name in ("Fatima Haddad", "Georg", "Noor", "Pia")
    }
