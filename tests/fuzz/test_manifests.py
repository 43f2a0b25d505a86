"""Mutated manifests: accepted only where every word of them is true."""

import copy
import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.publication.manifest import MANIFEST
from spark_auc.publication.publish import publication
from spark_auc.publication.versions import current, resolve
from tests.fuzz.inputs import inputs

pytestmark = pytest.mark.fuzz

FILES = {"model/data/part-0.parquet": b"abc" * 50, "summary.json": b"{}\n", "empty": b""}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    there = tmp_path_factory.mktemp("manifests") / "out"
    for path in (there, there.parent / "other"):
        with publication(str(path), True, "model") as version:
            for name, content in FILES.items():
                version.write(name, content)
    unfinished = there / "versions" / "20260101T000000000000-00000000"
    unfinished.mkdir()
    (unfinished / "summary.json").write_bytes(FILES["summary.json"])
    (there / "versions" / "20260101T000000000000-00000001").symlink_to(
        there.parent / "other" / "versions" / os.listdir(there.parent / "other/versions")[0]
    )
    return there


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([10**4000, 150, 3, 0, "0" * 64, hashlib.sha256(b"").hexdigest()]),
    # Values of their own: the test changes them.
    st.builds(dict),
    st.builds(list),
    st.sampled_from(["data", "model", "versions", "..", "/", "/etc", "versions/../..", "%2e%2e"]),
    st.sampled_from([f"versions/20260101T000000000000-0000000{k}" for k in range(3)]),
)
names = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["format", "kind", "directory", "files", "superseded", "bytes", "sha256"]),
    st.sampled_from(
        [*FILES, "../summary.json", "./empty", "model//data/part-0.parquet", "/etc/passwd"]
    ),
)


def holders(content):
    found = [content]
    for value in content.values() if isinstance(content, dict) else content:
        if isinstance(value, dict | list):
            found += holders(value)
    return found


@st.composite
def manifests(draw, whole):
    """Bytes of a manifest that differs from a whole one."""
    content = copy.deepcopy(whole)
    for _ in range(draw(st.integers(0, 3))):
        here = draw(st.sampled_from(holders(content)))
        how = draw(st.sampled_from(["set", "drop", "add", "rename"]))
        if isinstance(here, list):
            here.append(draw(values))
            continue
        key = draw(st.sampled_from(sorted(here))) if here else draw(names)
        if how == "set":
            here[key] = draw(values)
        elif how == "drop":
            here.pop(key, None)
        elif how == "add":
            here[draw(names)] = draw(st.one_of(values, st.just({"bytes": 0, "sha256": None})))
        else:
            here[draw(names)] = here.pop(key, None)
    data = json.dumps(content).encode()
    if draw(st.integers(0, 2)) == 0:
        place = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 8))
        data = data[:place] + draw(st.binary(max_size=4)) + data[place + cut :]
    return data


def is_true(out, data, *, hashes):
    """Whether the files on disk are those that the bytes say, by means of the standard library."""
    try:
        content = json.loads(data)
        if content["format"] != 1 or content["kind"] != "model":
            return False
        version = out / content["directory"]
        if version.parent != out / "versions" or version.is_symlink():
            return False
        there = {
            str(path.relative_to(version)): path.read_bytes()
            for path in version.rglob("*")
            if path.is_file()
        }
        said = content["files"]
        return said.keys() == there.keys() and all(
            said[name]["bytes"] == len(found)
            and (not hashes or said[name]["sha256"] == hashlib.sha256(found).hexdigest())
            for name, found in there.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        return False


@inputs(1000)
@given(st.data())
def test_a_manifest_is_accepted_only_if_it_is_true(out, data):
    manifest = out / MANIFEST
    kept = out.parent / "whole.json"
    if not kept.exists():
        kept.write_bytes(manifest.read_bytes())
    content = data.draw(manifests(json.loads(kept.read_bytes())))
    manifest.write_bytes(content)
    for read, hashes in ((lambda place: current(place, "model").uri, True), (resolve, False)):
        try:
            found = read(str(out))
        except (ConfigError, ModelFormatError):
            assert content != kept.read_bytes()
            continue
        if not hashes:
            # A location is read whatever its kind.
            content = json.dumps(json.loads(content) | {"kind": "model"}).encode()
        assert is_true(out, content, hashes=hashes)
        assert Path(found.removeprefix("file://")).parent == out / "versions"


@inputs(200)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
def test_bytes_that_are_no_manifest(out, content):
    (out / MANIFEST).write_bytes(content)
    with pytest.raises(ModelFormatError, match=r"manifest\.json"):
        resolve(str(out))


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":' * 100_000, b"1" * 10_000, b"NaN"])
def test_deep_and_long_ones(out, content):
    (out / MANIFEST).write_bytes(content)
    with pytest.raises(ModelFormatError, match="damaged"):
        resolve(str(out))
