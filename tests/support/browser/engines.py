"""The engines of Safari and Firefox, both driven with selenium's API.

WebKitGTK has a driver program of its own. Firefox has the same commands built in (Marionette:
JSON over TCP), so `Marionette` takes the place of geckodriver, which no package brings.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver import FirefoxOptions, WebKitGTKOptions
from selenium.webdriver.remote.client_config import ClientConfig
from selenium.webdriver.remote.remote_connection import RemoteConnection
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.webkitgtk.service import Service

from tests.support.browser.site import free_port
from tests.support.machine import require
from tests.support.processes.site import SOON_SECONDS, soon

MINI_BROWSERS = Path("/usr/lib")
# Firefox asks nobody outside when it starts.
PREFERENCES: dict[str, object] = {
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.safebrowsing.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
}


@contextmanager
def webkit() -> Iterator[WebDriver]:
    """Skips the test where the driver or a virtual display is missing."""
    driver = require("webkit")
    options = WebKitGTKOptions()
    options.binary_location = str(next(MINI_BROWSERS.glob("*/webkit2gtk-4.*/MiniBrowser")))
    options.add_argument("--automation")
    with _display() as display:
        service = Service(driver, env={**os.environ, "DISPLAY": display})
        browser = webdriver.WebKitGTK(options=options, service=service)
        try:
            yield browser
        finally:
            browser.quit()


@contextmanager
def _display() -> Iterator[str]:
    """A virtual display of our own; it chooses a free number and says which."""
    reading, writing = os.pipe()
    command = [require("xvfb"), "-displayfd", str(writing), "-screen", "0", "1280x1024x24"]
    with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
        os.close(writing)
        with open(reading) as told:
            number = told.readline().strip()
        try:
            yield f":{number}"
        finally:
            server.terminate()


@contextmanager
def firefox() -> Iterator[WebDriver]:
    """Skips the test where there is no Firefox."""
    program, port = require("firefox"), free_port()
    with tempfile.TemporaryDirectory(prefix="tributary-firefox-") as profile:
        preferences = {**PREFERENCES, "marionette.port": port}
        Path(profile, "user.js").write_text(
            "".join(
                f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
                for name, value in preferences.items()
            )
        )
        command = [program, "--headless", "--marionette", "--no-remote", "--profile", profile]
        # Its home is the profile, or it would refuse one that belongs to another user.
        environment = {**os.environ, "HOME": profile}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            connection = Marionette(port)
            try:
                yield webdriver.Remote(command_executor=connection, options=FirefoxOptions())
            finally:
                connection.close()
                process.terminate()


class Marionette(RemoteConnection):
    """Passes selenium's commands to the Firefox that listens on this port of the loopback.

    A message is its length in bytes, a colon, and JSON: ``[0, id, name, parameters]`` one way,
    ``[1, id, error, result]`` the other.
    """

    NAMES = {
        "newSession": "NewSession",
        "quit": "DeleteSession",
        "get": "Navigate",
        "refresh": "Refresh",
        "getCurrentUrl": "GetCurrentURL",
        "getTitle": "GetTitle",
        "w3cGetActiveElement": "GetActiveElement",
        "findElement": "FindElement",
        "findElements": "FindElements",
        "clickElement": "ElementClick",
        "clearElement": "ElementClear",
        "sendKeysToElement": "ElementSendKeys",
        "getElementText": "GetElementText",
        "w3cExecuteScript": "ExecuteScript",
        "actions": "PerformActions",
        "setWindowRect": "SetWindowRect",
        "addCookie": "AddCookie",
        "deleteAllCookies": "DeleteAllCookies",
        "screenshot": "TakeScreenshot",
    }

    def __init__(self, port: int) -> None:
        super().__init__(client_config=ClientConfig(f"http://127.0.0.1:{port}"))
        self._socket = soon(lambda: _connected(port))
        self._socket.settimeout(SOON_SECONDS)
        self._stream = self._socket.makefile("rb")
        self._count = 0
        self._read()

    def execute(self, command: str, params: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        name = f"WebDriver:{self.NAMES[command]}"
        params = {key: value for key, value in params.items() if key != "sessionId"}
        body = json.dumps([0, self._count, name, params]).encode()
        self._socket.sendall(b"%d:%s" % (len(body), body))
        _, _, error, result = self._read()
        if error:
            return {"status": 500, "value": json.dumps({"value": error})}
        is_wrapped = isinstance(result, dict) and set(result) == {"value"}
        return {"value": result["value"] if is_wrapped else result}

    def _read(self) -> Any:
        length = b""
        while (byte := self._stream.read(1)) != b":":
            length += byte
        return json.loads(self._stream.read(int(length)))

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def _connected(port: int) -> socket.socket | None:
    with suppress(OSError):
        return socket.create_connection(("127.0.0.1", port), timeout=SOON_SECONDS)
    return None


ENGINES = {"webkit": webkit, "firefox": firefox}
