"""A real Caddy with the delivered configuration."""

import json
import subprocess
from typing import ClassVar

from tests.support.cluster.proxies import Proxy, replaced
from tests.support.machine import require
from tests.support.processes.site import ROOT


class Caddy(Proxy):
    name = "caddy"
    delivered = ROOT / "deploy" / "Caddyfile"
    note_of_failure = '"logger":"http.log.error"'
    statuses_while_one_is_down: ClassVar[set[int]] = {302, 502}

    def adapted(self, text: str) -> str:
        """With a certificate of our own; everything else is left to Caddy."""
        here = (
            "admin off",
            "default_bind 127.0.0.1",
            f"http_port {self.http}",
            f"https_port {self.https}",
        )
        certificate = f"tls {self.folder}/fullchain.pem {self.folder}/privkey.pem"
        return replaced(
            text,
            (
                (r"^\{$", "{\n\t" + "\n\t".join(here)),
                (r"^(\{\$SITE_HOST:.+ \{)$", rf"\1\n\t{certificate}\n"),
            ),
        )

    @property
    def environment(self) -> dict[str, str]:
        """The two settings that the file asks for; and nothing is written to the home folder."""
        return {
            "WEB": " ".join(f"127.0.0.1:{port}" for port in self.webs),
            "XDG_CONFIG_HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder),
        }

    def command(self) -> list[str]:
        return self._command("run")

    def _command(self, word: str) -> list[str]:
        return [require(self.name), word, "--config", str(self.path), "--adapter", "caddyfile"]

    def complaints(self) -> list[str]:
        said = subprocess.run(
            self._command("validate"),
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment,
            text=True,
        ).stdout
        entries = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        complaints = [entry["msg"] for entry in entries if entry["level"] in ("warn", "error")]
        # The authority of our certificate offers no revocation status.
        return [complaint for complaint in complaints if complaint != "stapling OCSP"]
