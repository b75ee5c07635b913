"""The connections of the server, hardened: HTTP requests and websockets with bounds on everything."""

# Daphne comes first: importing it installs the asyncio reactor, which must precede any other
# import of the reactor.
import daphne.server  # noqa: F401  # isort: skip

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from daphne import http_protocol, ws_protocol
from twisted.internet import reactor as _reactor
from twisted.web import http

from project.server.backpressure import WriteBuffer

# Typed as a module by Twisted; what is behind it is the asyncio reactor that Daphne installed.
reactor: Any = _reactor

# Close codes of RFC 6455 and its registry that may stand in a close frame.
SERVICE_RESTART = 1012
POLICY_VIOLATION = 1008
MESSAGE_TOO_BIG = 1009
INTERNAL_ERROR = 1011
SENDABLE_CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015), *range(3000, 5000)})
# A client that is told "too large" in mid-upload reads the answer only if we go on reading for a
# while: closing at once resets the connection, and the answer is lost with it.
LINGER_SECONDS = 5
LINGER_BYTES = 64 * 1024 * 1024
# The same for a websocket that broke a rule: its answer would not be heard either.
REFUSED_SECONDS = 1
# Nobody we know sends a request before the previous one is answered. Twisted would stop reading
# there, and then not notice that the client has left.
PIPELINED_BYTES = 16 * 1024


@dataclass(frozen=True)
class ConnectionLimits:
    """What one client, and all of them together, may take. Times in seconds."""

    # A request body; larger ones are refused before they are read.
    body_bytes: int = 2 * 1024 * 1024
    # The same where files are posted: at addresses that match this pattern, if there is one.
    upload_bytes: int = 20 * 1024 * 1024
    upload_addresses: str = ""
    # From the first line of a request to the last byte of its body.
    request_seconds: float = 120
    # A message from a browser: a cursor, an acknowledgement, a subscription.
    message_bytes: int = 64 * 1024
    # Messages and pings; a tab acknowledges twice a second, and subscribes in bursts.
    messages_per_second: float = 20
    message_burst: int = 60
    # Messages that the application has not taken yet.
    queued_messages: int = 64
    # A client that takes nothing for this long is cut; it resumes where it was.
    stall_seconds: float = 60
    # Bytes that wait for clients, in the whole process.
    outgoing_bytes: int = 128 * 1024 * 1024
    # Until a websocket must be accepted.
    connect_seconds: float = 20
    # Between pings. The answer has less time than that, because a second ping would make the
    # library forget the deadline of the first without cancelling it.
    ping_seconds: float = 30
    pong_seconds: float = 25
    # How long a client that is told goodbye may take to answer. Cutting the connection can cost it
    # what it had not read yet: the reason, above all on a slow network.
    farewell_seconds: float = 5
    # How long an application may go on after its client has left, and after the drain.
    close_seconds: float = 5
    # How long the stop hook may take before it is cancelled.
    drain_seconds: float = 15


class Allowance:
    """A token bucket: so many per second, so many at once."""

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def take(self) -> bool:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


# --- HTTP ---------------------------------------------------------------------------------------


def too_large(limit_bytes: int) -> bytes:
    body = b"This request is larger than the %d bytes that are accepted here.\n" % limit_bytes
    return (
        b"HTTP/1.1 413 Content Too Large\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: %d\r\n"
        b"Connection: close\r\n\r\n" % len(body)
    ) + body


class HardenedRequest(http_protocol.WebRequest):
    """One HTTP request: refused while it arrives, or answered no faster than it is read."""

    error_template = "<!doctype html><title>%(title)s</title><p>%(body)s</p>"

    def __init__(self, channel: "Channel", queued: object) -> None:
        self.write_buffer = channel.write_buffer
        self.limits = channel.limits
        self.is_received = False
        self.is_refused = False
        self.received_bytes = 0
        self.began_at = time.monotonic()
        self.body_limit = self.limits.body_bytes
        # Django parses forms. Twisted would do it too, in memory, before anybody asked.
        super().__init__(channel, queued, parsePOSTFormSubmission=False)

    # Twisted calls these three while the request arrives.

    def gotLength(self, length: int | None) -> None:
        if self._is_upload():
            self.body_limit = self.limits.upload_bytes
        if length is not None and length > self.body_limit:
            # Without this Twisted invites the body right after the refusal.
            self.requestHeaders.removeHeader(b"Expect")
            self._refuse()
            return
        super().gotLength(length)

    def _is_upload(self) -> bool:
        # The request gets its address when it is complete; the channel has it from the first line.
        addresses = self.limits.upload_addresses.encode()
        is_post = bool(addresses) and self.channel._command == b"POST"
        return is_post and re.fullmatch(addresses, self.channel._path) is not None

    def handleContentChunk(self, data: bytes) -> None:
        if self.is_refused:
            return
        self.received_bytes += len(data)
        if self.received_bytes > self.body_limit:
            self._refuse()
            return
        super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        self.is_received = True
        if not self.is_refused:
            super().requestReceived(command, path, version)

    def _refuse(self) -> None:
        self.is_refused = True
        if self.content is not None:
            self.content.close()
        self.channel.refuse(too_large(self.body_limit))

    def process(self) -> Any:
        # Daphne takes the root path from it, and fails on one that is not ASCII.
        self.requestHeaders.removeHeader(b"Daphne-Root-Path")
        return super().process()

    def check_timeouts(self) -> None:
        is_late = time.monotonic() - self.began_at > self.limits.request_seconds
        if is_late and not self.is_received and self.channel is not None:
            self.channel.transport.abortConnection()

    # The server calls these.

    def application_ended(self) -> None:
        """Answers for an application that did not, and cuts the answer it left unfinished.

        A cut rather than a clean end: to a client that would look like everything.
        """
        if self.finished or self.channel is None:
            return
        if self._response_started:
            self.channel.loseConnection()
        else:
            self.basic_error(500, b"Internal Server Error", "Something went wrong.")

    def go_away(self) -> None:
        """The server ends: a stream is told so, an answer in preparation may be finished."""
        if not self.is_received and self.channel is not None:
            self.channel.transport.abortConnection()
        elif self._is_event_stream() and self.application_queue:
            self.send_disconnect()

    def _is_event_stream(self) -> bool:
        types = self.responseHeaders.getRawHeaders(b"content-type", [])
        return any(value.startswith(b"text/event-stream") for value in types)


class Channel(http.HTTPChannel):
    """One HTTP connection, which knows whether its client reads."""

    def connectionMade(self) -> None:
        server = self.factory.server
        self.limits = server.limits
        self.write_buffer = WriteBuffer(server.buffer_limits, self.transport)
        self._refused_bytes: int | None = None
        self._pipelined_bytes = 0
        self._linger: Any = None
        super().connectionMade()

    def pauseProducing(self) -> None:
        super().pauseProducing()
        self.write_buffer.pauseProducing()

    def resumeProducing(self) -> None:
        super().resumeProducing()
        self.write_buffer.resumeProducing()

    def loseConnection(self) -> None:
        self.write_buffer.finish_in_time()
        super().loseConnection()

    def connectionLost(self, reason: Any) -> None:
        if self._linger is not None and self._linger.active():
            self._linger.cancel()
        self.write_buffer.stopProducing()
        super().connectionLost(reason)

    def dataReceived(self, data: bytes) -> None:
        if self._refused_bytes is not None:
            self._discard(len(data))
        elif not self._is_flooding(len(data)):
            super().dataReceived(data)

    def _is_flooding(self, size: int) -> bool:
        if not (self.requests and self.requests[0].is_received):
            self._pipelined_bytes = 0
            return False
        self._pipelined_bytes += size
        if self._pipelined_bytes <= PIPELINED_BYTES:
            return False
        self.transport.abortConnection()
        return True

    def refuse(self, answer: bytes) -> None:
        """Sends this last answer, then reads and forgets the rest for a while."""
        self._refused_bytes = 0
        self.setTimeout(None)
        self.transport.unregisterProducer()
        self.transport.write(answer)
        self.transport.loseWriteConnection()
        self._linger = reactor.callLater(LINGER_SECONDS, self.transport.abortConnection)

    def _discard(self, size: int) -> None:
        assert self._refused_bytes is not None
        self._refused_bytes += size
        if self._refused_bytes > LINGER_BYTES:
            self.transport.abortConnection()


class HTTPFactory(http_protocol.HTTPFactory):
    protocol = Channel

    def buildProtocol(self, addr: Any) -> Channel:
        channel: Channel = super().buildProtocol(addr)
        channel.requestFactory = HardenedRequest
        return channel

    def log(self, request: http.Request) -> None:
        """No access log here: Twisted would format a line per request for nobody."""


# --- websockets ---------------------------------------------------------------------------------


class WebSocket(ws_protocol.WebSocketProtocol):
    """One websocket: small messages in, at a human pace; as much out as the client takes."""

    def connectionMade(self) -> None:
        super().connectionMade()
        server = self.factory.server_class
        self.limits = server.limits
        self.allowance = Allowance(self.limits.messages_per_second, self.limits.message_burst)
        # Until here the HTTP channel was the transport's producer.
        self.write_buffer: WriteBuffer = self.transport.producer.write_buffer
        self.transport.unregisterProducer()
        self.transport.registerProducer(self.write_buffer, True)

    def onOpen(self) -> None:
        super().onOpen()
        if self.server.is_leaving:
            self.go_away()

    def connectionLost(self, reason: Any) -> None:
        self.write_buffer.stopProducing()
        super().connectionLost(reason)

    def dropConnection(self, abort: bool = False) -> None:
        self.write_buffer.finish_in_time()
        super().dropConnection(abort)

    def dataReceived(self, data: bytes) -> None:
        if self.failedByMe:
            return
        if self.state == self.STATE_CONNECTING and hasattr(self, "request"):
            # A client must wait for our handshake; the library would collect this without bound.
            self.transport.abortConnection()
            return
        super().dataReceived(data)

    def onMessageFrameBegin(self, length: int) -> None:
        # Not the library's own limit: that one also applies to what we send.
        super().onMessageFrameBegin(length)
        if self.message_data_total_length > self.limits.message_bytes:
            self.refuse(MESSAGE_TOO_BIG)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        is_read = self.application_queue.qsize() < self.limits.queued_messages
        if is_read and self.allowance.take():
            super().onMessage(payload, isBinary)
        else:
            self.refuse(POLICY_VIOLATION)

    def onPing(self, payload: bytes) -> None:
        # Each ping makes us write: unlimited, a client that does not read fills our memory.
        if self.allowance.take():
            super().onPing(payload)
        else:
            self.refuse(POLICY_VIOLATION)

    def refuse(self, code: int) -> None:
        """Says why, and hears no more; the library drops the connection a second later."""
        if self.failedByMe:
            return
        self.failedByMe = True
        self.closeHandshakeTimeout = REFUSED_SECONDS
        self.sendCloseFrame(code=code)

    def sendData(self, data: bytes, sync: bool = False, chopsize: int | None = None) -> None:
        if sync or chopsize or self.send_queue:
            super().sendData(data, sync, chopsize)
            return
        # The library's own way also describes each frame for a log that nobody reads.
        self.write_buffer.write(data)

    def serverSend(self, content: Any, binary: bool = False) -> None:
        # The application may not know yet that the connection is about to close.
        if self.state == self.STATE_OPEN:
            # One frame, never compressed: what `sendMessage` does, less its books.
            payload = content if binary else content.encode()
            self.sendFrame(opcode=2 if binary else 1, payload=payload)

    def serverClose(self, code: int | None = None) -> None:
        """Closes with any code of the registry; the library's own method allows only 1000."""
        code = 1000 if code is None else code
        if code not in SENDABLE_CLOSE_CODES:
            raise ValueError(f"close code {code} must not be sent")
        self.sendCloseFrame(code=code)

    def application_ended(self) -> None:
        if self.state == self.STATE_CONNECTING:
            self.handle_exception(None)
        else:
            self.sendCloseFrame(code=INTERNAL_ERROR)

    def go_away(self) -> None:
        if self.state == self.STATE_OPEN:
            self.sendCloseFrame(code=SERVICE_RESTART)


class WebSocketFactory(ws_protocol.WebSocketFactory):
    protocol = WebSocket
