"""Changed bytes of states, most of them under a checksum that holds, so that more is looked at."""

from __future__ import annotations

import json
import math
import struct

import numpy as np

from spark_auc.core.state import codec
from spark_auc.core.state.checksum import checksum

TYPES = [
    *("<f8", "<f4", "<f2", "<i8", "<i4", "<u8", "<u4", "<u2", "|u1", "|i1", "|b1", "state"),
    *("<U1", "<U5", "<U0", "<U9999999", "<U99999999", ">f8", ">i8", "|O", "|O8", "<c16", "<f16"),
    *("<M8[ns]", "|V8", "|S8", "f8", "float", "f8,i4", "", "(2,)f8", "<f8, <i8", "=f8", "\ud800"),
]
SIZES = [
    *(0, 1, 2, 3, 4, 5, 7, 8, 9, -1, -8, 2**31 - 1, 2**31, 2**32, 2**53, 2**60, 2**61, 2**62),
    *(2**63 - 1, 2**63, 2**64, 10**30, True, False, 1.0, 2.5, math.nan, "1", None, [], [3]),
]
NAMES = ["learn", "merge", "to_bytes", "__class__", "__dict__", "x", "", 3, None, "kind", "\0"]
WORDS = [
    *(struct.pack("<q", n) for n in (0, 1, 2, 3, 5, 9, -1, -2, 2**31, 2**53, 2**62, -(2**63))),
    *(struct.pack("<d", x) for x in (-0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e308)),
    *(struct.pack("<d", x) for x in (-1e308, 5e-324, 1e-310, 1e17, 0.5)),
    *(struct.pack("<2I", n, n) for n in (0, 1, 2, 3, 2**31, 2**32 - 1)),
    *(b"\xff" * 8, b"\1" * 8, b"\2" * 8),
]
TEXTS = [
    *(b"{", b"}", b"[" * 5000, b'{"a":' * 5000, b"null", b"[]", b"1", b"NaN", b"\xff", b"\0", b" "),
    *(b"1" * 5000, b"1e999", b'"kind": "x", ', b'"version": 1, ', b"-", b"\\ud800"),
]


class Node:
    """A state as its header and the stored bytes of its arrays, states in it being nodes."""

    def __init__(self, data):
        self.kind, self.version, described, position = codec._opened(data, "a state")
        self.data, self.parts = bytes(data), []
        reader = codec._Reader(np.frombuffer(data, np.uint8), position, 0, [])
        for name, dtype, shape, layout in described:
            start = reader.position
            if dtype == "state":
                reader.take(np.uint8, shape[0])
                stored = Node(data[start : reader.position])
            else:
                reader.values(np.dtype(dtype), math.prod(shape), layout)
                stored = bytes(data[start : reader.position])
            self.parts.append(([name, dtype, shape, layout], stored))

    def nodes(self):
        """This and those in it, by the way to them."""
        yield ()
        for k, (_, part) in enumerate(self.parts):
            if isinstance(part, Node):
                yield from ((k, *way) for way in part.nodes())

    def at(self, way):
        """The node at the end of a way."""
        return self.parts[way[0]][1].at(way[1:]) if way else self

    def changed(self, way, change):
        """The bytes after a change of the parts and the header's facts of the node at a way."""
        if way:
            inner = self.parts[way[0]][1].changed(way[1:], change)
            parts = list(self.parts)
            described = list(parts[way[0]][0])
            described[2] = [len(inner)]
            parts[way[0]] = (described, inner)
            facts = {"kind": self.kind, "version": self.version}
        else:
            facts, parts = change(self)
        return assembled(facts, parts)


def assembled(facts, parts):
    """The bytes of a state, under a checksum that holds; ``facts`` may be the whole header."""
    if isinstance(facts, bytes):
        header = facts
    else:
        header = json.dumps(facts | {"arrays": [described for described, _ in parts]}).encode()
    header += b" " * (-len(header) % 8)
    length = struct.pack("<Q", len(header))
    body, checked = [], [length, header]
    for described, part in parts:
        stored = part.data if isinstance(part, Node) else part
        stored += bytes(-len(stored) % 8)
        body.append(stored)
        nested = len(described) > 1 and described[1] == "state"
        checked.append(stored[:16] if nested else stored)
    words = np.frombuffer(b"".join(checked), np.uint64)
    start = struct.pack("<4sIQ", b"SAUC", codec._FORMAT, checksum([words]))
    return b"".join((start, length, header, *body))


class Mutations:
    """Changes of bytes, drawn from a generator.

    Parameters
    ----------
    random
        A `random.Random`.
    samples
        Bytes of states of one kind.
    others
        Bytes of states of any kind.
    """

    def __init__(self, random, samples, others):
        self.random = random
        self.nodes = [Node(data) for data in samples]
        self.ways = [list(node.nodes()) for node in self.nodes]
        self.others = others
        self.strange = [Node(data) for data in random.sample(others, min(6, len(others)))]

    def __call__(self):
        """Bytes that are changed somehow."""
        random = self.random
        k = random.randrange(len(self.nodes))
        node = self.nodes[k]
        if random.random() < 0.2:
            return self.damaged(node.data)
        way = random.choice(self.ways[k])
        changes = (self.values, self.values, self.described, self.arranged, self.resized, self.text)
        return node.changed(way, random.choice(changes))

    def damaged(self, data):
        """The bytes with some of them changed, cut, moved or put in; the checksum as it was."""
        random, changed = self.random, bytearray(data)
        kind = random.randrange(6)
        a, b = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
        if kind <= 1:
            for _ in range(random.randint(1, 4)):
                changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        elif kind == 2:
            del changed[a:]
        elif kind == 3:
            del changed[a:b]
        elif kind == 4:
            other = random.choice(self.others)
            changed[a:] = other[a:]
        else:
            changed[a:a] = changed[b : b + random.randint(1, 64)] or b"\0" * 8
        return bytes(changed)

    def values(self, node):
        """Other numbers in an array."""
        random, parts = self.random, list(node.parts)
        for _ in range(random.randint(1, 2)):
            if not parts:
                break
            k = random.randrange(len(parts))
            described, part = parts[k]
            if isinstance(part, Node) or not part:
                continue
            changed = bytearray(part)
            if random.random() < 0.5:
                changed[random.randrange(len(part))] ^= 1 << random.randrange(8)
            else:
                at = 8 * random.randrange(len(part) // 8)
                changed[at : at + 8] = random.choice(WORDS)
            parts[k] = (described, bytes(changed))
        return _facts(node), parts

    def described(self, node):
        """Another name, type, shape or layout in the header."""
        random, parts = self.random, [(list(d), p) for d, p in node.parts]
        facts = _facts(node)
        if not parts or random.random() < 0.1:
            name = random.choice(("kind", "version"))
            return facts | {name: random.choice((*NAMES, *SIZES, "DSGD", 0, 2))}, parts
        described = random.choice(parts)[0]
        what = random.randrange(6)
        if what == 0:
            described[0] = random.choice((*NAMES, *(d[0] for d, _ in parts)))
        elif what == 1:
            described[1] = random.choice(TYPES)
        elif what == 2 and described[2]:
            described[2] = list(described[2])
            described[2][random.randrange(len(described[2]))] = random.choice(SIZES)
        elif what == 3:
            described[2] = random.choice(
                (described[2][::-1], [*described[2], 1], [1, *described[2]], described[2][1:], 3)
            )
        elif what == 4:
            described[3] = random.choice((0, 1, 2, 3, 4, 7, -1, 2**40, "0", None, True, 1.0))
        else:
            described[random.randrange(4)] = random.choice((*SIZES, *TYPES))
        if random.random() < 0.1:
            del described[random.randrange(4)]
        return facts, parts

    def arranged(self, node):
        """Arrays left out, twice, in another order, or those of other states."""
        random, parts = self.random, list(node.parts)
        strange = random.choice((*self.strange, *self.nodes))
        what = random.randrange(6)
        if not parts or what == 0:
            parts += strange.parts[:1]
        elif what == 1:
            del parts[random.randrange(len(parts))]
        elif what == 2:
            parts.append(random.choice(parts))
        elif what == 3:
            random.shuffle(parts)
        elif what == 4:
            # The array of one field in another one.
            k = random.randrange(len(parts))
            described, part = random.choice((*parts, *strange.parts))
            parts[k] = ([parts[k][0][0], *described[1:]], part)
        elif strange.parts:
            parts[random.randrange(len(parts))] = random.choice(strange.parts)
        return _facts(node), parts

    def resized(self, node):
        """Arrays whose shape and bytes agree, but which are longer or shorter than they were."""
        random, parts = self.random, list(node.parts)
        for _ in range(random.randint(1, 3)):
            if not parts:
                break
            k = random.randrange(len(parts))
            (name, dtype, shape, layout), part = parts[k]
            if isinstance(part, Node) or layout or not shape:
                continue
            array = np.frombuffer(part, np.dtype(dtype), math.prod(shape)).reshape(shape)
            axis, size = random.randrange(len(shape)), random.choice((0, 1, 2, 3, 4, 6))
            places = np.arange(size) % max(shape[axis], 1)
            if shape[axis]:
                array = array.take(places, axis)
                parts[k] = ([name, dtype, list(array.shape), 0], array.tobytes())
        return _facts(node), parts

    def text(self, node):
        """A header that is not the one way to write it, or is none."""
        random = self.random
        header = json.dumps(_facts(node) | {"arrays": [d for d, _ in node.parts]}).encode()
        at = random.randrange(len(header))
        to = at + random.choice((0, 0, 1, 2, 5))
        header = header[:at] + random.choice(TEXTS) + header[to:]
        return header, node.parts


def _facts(node):
    return {"kind": node.kind, "version": node.version}
