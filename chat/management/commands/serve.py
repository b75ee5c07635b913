"""Serves the application on one address, with the embedded runner if the settings say so."""

import errno
import ipaddress
from typing import Any

from channels.routing import get_default_application
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext, gettext_lazy
from twisted.internet.error import CannotListenError

from project.server.server import ConnectionLimits, Server
from project.startup import (
    REFUSED,
    configure_malloc,
    forget_to_collect_what_is_loaded,
    prepared_process,
    refuse_external_runner_on_sqlite,
    refuse_missing_static_files,
    refuse_wrong_address,
)

# Seconds that a runner may need after its drain, to interrupt runs and for a last commit on a slow
# database.
DRAIN_MARGIN_SECONDS = 20
# Addresses that accept files: those of a message that is being written, those of a project, messages with
# pictures of the API, and files to import, whole or in pieces.
UPLOADS = (
    r"/(unsent/[0-9a-z-]{1,40}/|projects/[0-9a-f-]{36}/files/|api/v1/chat"
    r"|settings/data/(import|[0-9a-f-]{36}/piece/[0-9]+)/)(\?.*)?"
)


class Command(BaseCommand):
    help = "Serve Tributary over HTTP and WebSocket."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--host", default=settings.HOST, help="interface (default: %(default)s)"
        )
        parser.add_argument(
            "--port", default=settings.PORT, type=int, help="port (default: %(default)s)"
        )

        parser.add_argument(
            "--welcome",
            action="store_true",
            help="print the address and the setup link once the server is ready",
        )

    def handle(self, *, host: str, port: int, welcome: bool, **options: Any) -> None:
        refuse_debug_in_public(host)
        refuse_external_runner_on_sqlite()
        refuse_wrong_address()
        with prepared_process():
            refuse_missing_static_files()
            self._serve(host, port, welcome=welcome)

    def _serve(self, host: str, port: int, *, welcome: bool) -> None:
        # Imported here, because it needs the app registry.
        from project import lifespan

        words = words_of_welcome() if welcome else ""

        async def start() -> None:
            await lifespan.start()
            if words:
                print(words, flush=True)

        server = Server(
            get_default_application(),
            host=host,
            port=port,
            limits=ConnectionLimits(
                body_bytes=settings.MAX_BODY_BYTES,
                upload_bytes=settings.MAX_UPLOAD_BYTES,
                upload_addresses=UPLOADS,
                drain_seconds=settings.DRAIN_SECONDS + DRAIN_MARGIN_SECONDS,
            ),
            on_start=start,
            on_stop=lifespan.stop,
        )
        listen(server)
        forget_to_collect_what_is_loaded()
        configure_malloc()
        server.run()


def words_of_welcome() -> str:
    # Imported here, because it needs the app registry.
    from chat.accounts.actions.setup import setup_link

    link = setup_link()
    told = (
        gettext("Tributary is running at %(address)s. Open this link to set it up:")
        if link
        else gettext("Tributary is running at %(address)s. Sign in to continue.")
    )
    lines = ["", told % {"address": f"{settings.SITE_URL}/"}, ""]
    if link:
        edge = f"  +{'-' * (len(link) + 2)}+"
        lines += [edge, f"  | {link} |", edge, ""]
    return "\n".join(lines)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_debug_in_public(host: str) -> None:
    """The debug pages show settings and source to anyone who can cause an error."""
    if settings.DEBUG and not is_loopback(host):
        raise CommandError(
            gettext(
                "DEBUG is on, and %(host)s can be reached from other machines. Unset DEBUG, or use "
                "HOST=127.0.0.1."
            )
            % {"host": host},
            returncode=REFUSED,
        )


# Advice for the common reasons.
REMEDIES = {
    errno.EADDRINUSE: gettext_lazy("Set PORT to a free port."),
    errno.EACCES: gettext_lazy("Set PORT to 1024 or higher."),
    errno.EADDRNOTAVAIL: gettext_lazy("Set HOST to an address of this machine."),
}


def listen(server: Server) -> None:
    try:
        server.listen()
    except CannotListenError as error:
        reason = error.socketError.strerror or str(error.socketError)
        told = gettext("Can’t listen on %(address)s: %(reason)s.") % {
            "address": f"{error.interface or '*'}:{error.port}",
            "reason": reason,
        }
        remedy = REMEDIES.get(error.socketError.errno)
        raise CommandError(f"{told} {remedy}" if remedy else told, returncode=REFUSED) from None
