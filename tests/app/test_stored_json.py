"""JSON in stored states: what was stored is read, and all else is refused."""

from dataclasses import asdict, dataclass

import numpy as np
import pytest

from spark_auc.app.jobs.stored_json import as_json, json_of


@dataclass(frozen=True)
class Progress:
    batch: int
    files: list[str]


@pytest.mark.parametrize("value", [Progress(3, ["a", "b"]), Progress(0, [])])
def test_a_value_is_read_as_stored(value):
    assert json_of(Progress)(as_json(asdict(value))) == value


@pytest.mark.parametrize(
    "content",
    [
        *(None, True, 5, 0.5, "batch", [], {}),
        ["batch", "files"],
        [{"batch": 3, "files": []}],
        {"batch": 3},
        {"batch": 3, "files": [], "more": 1},
        {"batch": "3", "files": []},
        {"batch": 3.0, "files": []},
        {"batch": 3, "files": [1]},
    ],
    ids=str,
)
def test_other_content_is_refused(content):
    with pytest.raises(ValueError, match=r"\w"):
        json_of(Progress)(as_json(content))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"nul", b"\xff", b"[" * 100_000),
        b'{"batch": 3, "batch": 3, "files": []}',
        b'{"batch":3,"files":[]}',
        b'{"batch": NaN, "files": []}',
    ],
    ids=lambda data: repr(data[:20]),
)
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError, match=r"\w"):
        json_of(Progress)(np.frombuffer(data, np.uint8))
