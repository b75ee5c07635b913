"""Settings, addresses and the server of Tributary."""

# As in pyproject.toml.
VERSION = "0.1.0"
