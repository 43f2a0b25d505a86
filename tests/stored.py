"""Bytes of states that were changed on purpose, under a checksum that holds again."""

import json

from spark_auc.core.state import codec
from spark_auc.errors import ModelFormatError


def header_of(data):
    """The header, and where it ends."""
    *_, length = codec._PREFIX.unpack_from(data)
    end = codec._PREFIX.size + length
    return json.loads(data[codec._PREFIX.size : end]), end


def resealed(data):
    """The bytes with the checksum that they should have, if they can have one."""
    try:
        described, position = codec._opened(data, "a state")[2:]
        found = codec._arrays(described, data, position)[1]
    except (ModelFormatError, ValueError, TypeError):
        return data
    prefix = codec._PREFIX.unpack_from(data)
    return codec._PREFIX.pack(*prefix[:2], found, prefix[3]) + data[codec._PREFIX.size :]


def with_header(data, header):
    """The bytes under another header, which is bytes or what JSON takes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * codec._padding(len(text))
    prefix = codec._PREFIX.pack(b"SAUC", codec._FORMAT, 0, len(text))
    return resealed(prefix + text + data[header_of(data)[1] :])


def of_version(data, version):
    """The bytes under the number of another version."""
    return with_header(data, header_of(data)[0] | {"version": version})
