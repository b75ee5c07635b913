"""Hardened HTTP and websocket connections, with limits on everything."""

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

# Twisted types it as a module; it is the asyncio reactor that Daphne installed.
reactor: Any = _reactor

# Close codes that a close frame may contain (RFC 6455, section 7.4, and its registry).
SERVICE_RESTART = 1012
POLICY_VIOLATION = 1008
MESSAGE_TOO_BIG = 1009
INTERNAL_ERROR = 1011
SENDABLE_CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015), *range(3000, 5000)})
# A client that gets "too large" during an upload can read this response only if we keep reading for
# a while: closing immediately would reset the connection, and the response would be lost.
LINGER_SECONDS = 5
LINGER_BYTES = 64 * 1024 * 1024
# The same for a websocket that violated a limit, which must receive the close code.
REFUSED_SECONDS = 1
# No known client sends a request before the previous one is answered (pipelining). Twisted would
# stop reading there, and then not notice that the client has disconnected.
PIPELINED_BYTES = 16 * 1024


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits for each client and for all clients together. Times are in seconds."""

    # Size of a request body; larger bodies are refused before they are read.
    body_bytes: int = 2 * 1024 * 1024
    # The same for uploads: at addresses that match this pattern, if it is not empty.
    upload_bytes: int = 20 * 1024 * 1024
    upload_addresses: str = ""
    # Seconds from the first line of a request to the last byte of its body.
    request_seconds: float = 120
    # Size of a message from a browser: a cursor, an acknowledgement, a subscription.
    message_bytes: int = 64 * 1024
    # Rate of messages and pings. A tab acknowledges twice a second, and subscribes in bursts.
    messages_per_second: float = 20
    message_burst: int = 60
    # Messages that the application has not received yet.
    queued_messages: int = 64
    # A client that reads nothing for this long is disconnected; it resumes where it was.
    stall_seconds: float = 60
    # Bytes that are waiting for clients, in the whole process.
    outgoing_bytes: int = 128 * 1024 * 1024
    # Time until a websocket must be accepted.
    connect_seconds: float = 20
    # Time between pings. The pong must arrive sooner, because with a second ping the library loses
    # the timer of the first without canceling it.
    ping_seconds: float = 30
    pong_seconds: float = 25
    # How long a client may take to answer a close frame. If we cut the connection, it may lose what
    # it has not read yet, such as the reason, especially on a slow network.
    farewell_seconds: float = 5
    # How long an application may continue after its client has disconnected, and after the drain.
    close_seconds: float = 5
    # How long the stop hook may take before it is canceled.
    drain_seconds: float = 15


class Allowance:
    """A token bucket: a rate per second, and a burst."""

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def try_spend(self) -> bool:
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
    return _refusal(b"413 Content Too Large", body)


# Twisted accepts 16 kB for the request line and all headers together.
ADDRESS_TOO_LONG = (b"414 URI Too Long", b"The address of this request is too long.\n")
HEADERS_TOO_LARGE = (
    b"431 Request Header Fields Too Large",
    b"The headers of this request are too large.\n",
)


def _refusal(status: bytes, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 %b\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: %d\r\n"
        b"Connection: close\r\n\r\n" % (status, len(body))
    ) + body


class HardenedRequest(http_protocol.WebRequest):
    """One HTTP request with size limits, whose response is written no faster than the client
    reads."""

    error_template = "<!doctype html><title>%(title)s</title><p>%(body)s</p>"

    def __init__(self, channel: "Channel", queued: object) -> None:
        self.write_buffer = channel.write_buffer
        self.limits = channel.limits
        self.is_received = False
        self.is_refused = False
        self.received_bytes = 0
        self.began_at = time.monotonic()
        self.body_limit = self.limits.body_bytes
        # Django parses forms. Twisted would parse them as well, in memory.
        super().__init__(channel, queued, parsePOSTFormSubmission=False)

    # Twisted calls these methods while the request arrives.

    def gotLength(self, length: int | None) -> None:
        if self._is_upload():
            self.body_limit = self.limits.upload_bytes
        if length is not None and length > self.body_limit:
            # With the header, Twisted would send "100 Continue" after the refusal.
            self.requestHeaders.removeHeader(b"Expect")
            self._refuse()
            return
        super().gotLength(length)

    def _is_upload(self) -> bool:
        # The request gets its path only when it is complete; the channel has it from the first
        # line.
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
        # Daphne reads the root path from it, and fails if it is not ASCII.
        self.requestHeaders.removeHeader(b"Daphne-Root-Path")
        return super().process()

    def check_timeouts(self) -> None:
        is_late = time.monotonic() - self.began_at > self.limits.request_seconds
        if is_late and not self.is_received and self.channel is not None:
            self.channel.transport.abortConnection()

    # The server calls these methods.

    def application_ended(self) -> None:
        """Responds with 500 if the application did not respond, and cuts an unfinished response.

        It is cut because a clean end would look to the client like a complete response.
        """
        if self.finished or self.channel is None:
            return
        if self._response_started:
            self.channel.loseConnection()
        else:
            self.basic_error(500, b"Internal Server Error", "Something went wrong.")

    def go_away(self) -> None:
        """The server is stopping: ends streams; a response in preparation may be finished."""
        if not self.is_received and self.channel is not None:
            self.channel.transport.abortConnection()
        elif self._is_event_stream() and self.application_queue:
            self.send_disconnect()

    def _is_event_stream(self) -> bool:
        types = self.responseHeaders.getRawHeaders(b"content-type", [])
        return any(value.startswith(b"text/event-stream") for value in types)


class Channel(http.HTTPChannel):
    """One HTTP connection with backpressure."""

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

    def lineReceived(self, line: bytes) -> None:
        if self._receivedHeaderSize + len(line) > self.totalHeadersSize:
            self.lineLengthExceeded(line)
        else:
            super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:
        """Twisted closes the connection without a word, which looks like a broken server."""
        # The size of the request's lines so far: nothing of it was read before its first line.
        is_first = not self._receivedHeaderSize
        self.refuse(_refusal(*(ADDRESS_TOO_LONG if is_first else HEADERS_TOO_LARGE)))

    def refuse(self, answer: bytes) -> None:
        """Sends a last response, then reads and discards the rest for a while."""
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
        """Does nothing: there is no access log, and Twisted would format a line for each
        request."""


# --- websockets ---------------------------------------------------------------------------------


class WebSocket(ws_protocol.WebSocketProtocol):
    """One websocket, with limits on size and rate of incoming messages, and with backpressure."""

    def connectionMade(self) -> None:
        super().connectionMade()
        server = self.factory.server_class
        self.limits = server.limits
        self.allowance = Allowance(self.limits.messages_per_second, self.limits.message_burst)
        # So far, the HTTP channel was the transport's producer.
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
            # A client must wait for our handshake; the library would buffer this data without a
            # limit.
            self.transport.abortConnection()
            return
        # All that the library's own method does besides is to format a description for a log.
        self._dataReceived(data)

    def onMessageFrameBegin(self, length: int) -> None:
        # We don't use the library's own limit, because it also applies to outgoing messages.
        super().onMessageFrameBegin(length)
        if self.message_data_total_length > self.limits.message_bytes:
            self.refuse(MESSAGE_TOO_BIG)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        is_read = self.application_queue.qsize() < self.limits.queued_messages
        if is_read and self.allowance.try_spend():
            super().onMessage(payload, isBinary)
        else:
            self.refuse(POLICY_VIOLATION)

    def onPing(self, payload: bytes) -> None:
        # Each ping causes a write, so without a limit a client that does not read could fill our
        # memory.
        if self.allowance.try_spend():
            super().onPing(payload)
        else:
            self.refuse(POLICY_VIOLATION)

    def refuse(self, code: int) -> None:
        """Sends a close code and ignores further data; the library drops the connection a second
        later."""
        if self.failedByMe:
            return
        self.failedByMe = True
        self.closeHandshakeTimeout = REFUSED_SECONDS
        self.sendCloseFrame(code=code)

    def sendData(self, data: bytes, sync: bool = False, chopsize: int | None = None) -> None:
        if sync or chopsize or self.send_queue:
            super().sendData(data, sync, chopsize)
            return
        # The library's own method also formats a description of each frame for a log.
        self.write_buffer.write(data)

    def serverSend(self, content: Any, binary: bool = False) -> None:
        # The application may not know yet that the connection is about to close.
        if self.state == self.STATE_OPEN:
            # One frame, never compressed: like `sendMessage`, without its statistics.
            payload = content if binary else content.encode()
            self.sendFrame(opcode=2 if binary else 1, payload=payload)

    def serverClose(self, code: int | None = None) -> None:
        """Closes with any registered code; the library's own method allows only 1000."""
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
