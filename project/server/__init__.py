"""The hardened Daphne server."""
