"""Settings, addresses and the server of Tributary."""

# The same as in pyproject.toml.
VERSION = "0.2.0"
