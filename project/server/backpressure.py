"""Backpressure: bounds the memory for connections whose clients do not read."""

import logging
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from chat.core import metrics
from chat.core.waiting import Signal

logger = logging.getLogger(__name__)

# A function in the scope of a websocket: sends a text if that is possible without waiting, and
# returns whether it did. If the connection is about to close, it also returns true, and the text is
# dropped.
SEND_NOW = "tributary.send_now"


@implementer(IPushProducer)
class WriteBuffer:
    """The write buffer of one connection: whether it accepts more, and the wait until it does.

    It is registered as the transport's producer. Twisted calls ``pauseProducing`` when more than 64
    KiB are waiting to be sent, ``resumeProducing`` when the buffer is empty, and ``stopProducing``
    when the connection is closed.
    """

    def __init__(self, limits: "BufferLimits", transport: Any) -> None:
        self._limits = limits
        self._transport = transport
        self._may_write = Signal()
        self._may_write.set()

    def pauseProducing(self) -> None:
        self._may_write.clear()
        self._limits.stalled(self)

    def resumeProducing(self) -> None:
        self._may_write.set()
        self._limits.moved(self)

    def stopProducing(self) -> None:
        """The connection is closed: waiting writers continue and notice it."""
        self.resumeProducing()

    def finish_in_time(self) -> None:
        """Starts the time limit for the rest of the data, before the connection is closed."""
        self._limits.stalled(self)

    @property
    def is_paused(self) -> bool:
        return not self._may_write.is_set()

    def write(self, data: bytes) -> None:
        """Writes directly to the socket if the buffer is empty, and leaves the rest to Twisted,
        which first waits for the selector. For small messages, that wait costs as much as
        everything else.
        """
        transport = self._transport
        if transport.connected and not self.pending_bytes and not transport._writeDisconnected:
            sent = transport.writeSomeData(data)
            # If the connection is lost, Twisted finds out when it tries the same write.
            if isinstance(sent, int) and sent > 0:
                data = data[sent:]
        if data:
            transport.write(data)

    async def writable(self) -> None:
        """Waits until the buffer accepts more. It loops because several writers wake up at once."""
        while self.is_paused:
            await self._may_write.wait()

    @property
    def pending_bytes(self) -> int:
        """Bytes in the transport's buffers: the sum by which it decides to pause."""
        return len(self._transport.dataBuffer) + self._transport._tempDataLen

    def abort(self) -> None:
        self._transport.abortConnection()


class BufferLimits:
    """All connections of this process that are waiting for their client, longest wait first."""

    def __init__(
        self,
        *,
        stall_seconds: float,
        ceiling_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stall_seconds = stall_seconds
        self._ceiling_bytes = ceiling_bytes
        self._clock = clock
        self._since: dict[WriteBuffer, float] = {}
        _all_limits.add(self)

    def stalled(self, write_buffer: WriteBuffer) -> None:
        self._since.setdefault(write_buffer, self._clock())

    def moved(self, write_buffer: WriteBuffer) -> None:
        self._since.pop(write_buffer, None)

    @property
    def pending_bytes(self) -> int:
        return sum(write_buffer.pending_bytes for write_buffer in self._since)

    def sweep(self) -> None:
        """Closes connections that are stalled for too long, then, above the memory limit, the
        longest waiting."""
        self._cut_overdue()
        self._cut_to_ceiling()

    def _cut_overdue(self) -> None:
        latest = self._clock() - self._stall_seconds
        for write_buffer, since in list(self._since.items()):
            if since > latest:
                return
            self._cut(write_buffer, "stalled")

    def _cut_to_ceiling(self) -> None:
        excess = self.pending_bytes - self._ceiling_bytes
        for write_buffer in list(self._since):
            if excess <= 0:
                return
            excess -= write_buffer.pending_bytes
            self._cut(write_buffer, "memory")

    def _cut(self, write_buffer: WriteBuffer, reason: str) -> None:
        pending_bytes = write_buffer.pending_bytes
        metrics.CONNECTIONS_CUT.labels(reason).inc()
        logger.warning("connection.cut reason=%s pending_bytes=%d", reason, pending_bytes)
        self.moved(write_buffer)
        write_buffer.abort()


_all_limits: WeakSet[BufferLimits] = WeakSet()
metrics.OUTGOING_BYTES.read_from(lambda: {"": sum(limits.pending_bytes for limits in _all_limits)})
