"""Two-step verification: authenticator apps, passkeys and recovery codes, with allauth's records and protocols."""
