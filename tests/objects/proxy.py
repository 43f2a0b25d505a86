"""A proxy before an S3 server that answers some requests by faults, as a seeded plan says.

Faults: 500 and 503 without the request reaching the server, the same after it did (the answer is
lost), pauses before an answer, slow listings, and connections that end before an answer, within its
head or within its body.
"""

import asyncio
import random
import threading
from collections import Counter
from dataclasses import dataclass, field

FAULTS = ("500", "503", "lost", "pause", "drop", "half")
_BODY = (
    b'<?xml version="1.0"?><Error><Code>%s</Code><Message>injected</Message>'
    b"<RequestId>1</RequestId></Error>"
)
_NAMES = {
    "500": (b"500 Internal Server Error", b"InternalError"),
    "503": (b"503 Slow", b"SlowDown"),
}
_NAMES["lost"] = _NAMES["500"]


@dataclass
class Plan:
    """Which requests meet a fault.

    ``rate`` is the share of requests, of ``kinds``; after a fault, the next request of the same
    method and path passes, if ``spared``. ``dead`` lets none pass. ``matching`` limits faults to
    the requests whose line has this text.
    """

    rate: float = 0.0
    kinds: tuple = FAULTS
    seed: int = 0
    pause: float = 0.2
    listing: float = 0.0
    spared: bool = True
    dead: str | None = None
    matching: str = ""
    met: Counter = field(default_factory=Counter)
    requests: list = field(default_factory=list)

    def __post_init__(self):
        self._draw, self._hit = random.Random(self.seed), set()

    def fault(self, line):
        self.requests.append(line)
        if self.matching not in line:
            return None
        if self.dead:
            self.met[self.dead] += 1
            return self.dead
        if self.spared and line in self._hit:
            self._hit.discard(line)
            return None
        if self._draw.random() >= self.rate:
            return None
        self._hit.add(line)
        kind = self._draw.choice(self.kinds)
        self.met[kind] += 1
        return kind


class Proxy:
    """A proxy on 127.0.0.1 in a thread; ``plan`` may be replaced at any time."""

    def __init__(self, target):
        self.host, _, port = target.removeprefix("http://").partition(":")
        self.port, self.plan = int(port), Plan()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self):
        asyncio.run(self._serve())

    async def _serve(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _connection(self, reader, writer):
        try:
            while await self._request(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _request(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        line = head.split(b"\r\n", 1)[0].decode()
        if b"expect: 100-continue" in head.lower():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
        body = await _body(reader, head)
        fault, plan = self.plan.fault(line), self.plan
        if fault == "stall":
            await asyncio.sleep(3600)
        if fault == "drop":
            return False
        if "list-type" in line and plan.listing:
            await asyncio.sleep(plan.listing)
        if fault == "pause":
            await asyncio.sleep(plan.pause)
        if fault in {"500", "503"}:
            await _refuse(writer, fault, line)
            return True
        answer = await self._asked(head, body, line)
        if fault == "lost":
            await _refuse(writer, fault, line)
            return True
        if fault in {"half", "head"}:
            end = answer.index(b"\r\n\r\n") + 4
            cut = end // 2 if fault == "head" else end + (len(answer) - end) // 2
            writer.write(answer[:cut] if cut < len(answer) else b"")
            await writer.drain()
            return False
        writer.write(answer)
        await writer.drain()
        return True

    async def _asked(self, head, body, line):
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            lines = [
                text
                for text in head.split(b"\r\n")
                if not text.lower().startswith((b"connection:", b"expect:"))
            ]
            writer.write(b"\r\n".join([*lines[:-2], b"Connection: close", b"", b""]) + body)
            await writer.drain()
            answer = await reader.read()
        finally:
            writer.close()
        first, _, rest = answer.partition(b"\r\n\r\n")
        kept = [t for t in first.split(b"\r\n") if not t.lower().startswith(b"connection:")]
        return b"\r\n".join(kept) + b"\r\n\r\n" + rest


async def _body(reader, head):
    length, chunked = 0, False
    for text in head.lower().split(b"\r\n"):
        if text.startswith(b"content-length:"):
            length = int(text.partition(b":")[2])
        chunked |= text.startswith(b"transfer-encoding:") and b"chunked" in text
    if not chunked:
        return await reader.readexactly(length)
    parts = []
    while True:
        size = await reader.readuntil(b"\r\n")
        count = int(size.split(b";")[0], 16)
        rest = await reader.readexactly(count + 2) if count else await _trailer(reader)
        parts += [size, rest]
        if not count:
            return b"".join(parts)


async def _trailer(reader):
    lines = [await reader.readuntil(b"\r\n")]
    while lines[-1] != b"\r\n":
        lines.append(await reader.readuntil(b"\r\n"))
    return b"".join(lines)


async def _refuse(writer, kind, line):
    status, code = _NAMES[kind]
    body = b"" if line.startswith("HEAD") else _BODY % code
    writer.write(
        b"HTTP/1.1 %s\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s"
        % (status, len(body), body)
    )
    await writer.drain()
