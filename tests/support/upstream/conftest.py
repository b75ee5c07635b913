"""The fixtures of the demo's tests, for the double that is built on it."""

from tests.demo.conftest import ask_native, ask_openai, client, fake

__all__ = ["ask_native", "ask_openai", "client", "fake"]
