"""Outputs appear whole or not at all."""

import json
from pathlib import Path

import pytest
from pyarrow import fs
from pyarrow._fs import _MockFileSystem

from spark_auc.app.config.sources import check_path
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.publication import publish as publishing
from spark_auc.publication.directory import Directory
from spark_auc.publication.manifest import MANIFEST
from spark_auc.publication.publish import publication
from spark_auc.publication.versions import current, kept, resolve
from spark_auc.storage import file_systems
from spark_auc.storage.file_systems import is_local


def publish(path, text="one", replace=False, keep=0):
    with publication(str(path), replace, "model", keep=keep) as version:
        version.write("model/a.txt", text.encode())
        version.write_json("b.json", {"x": 1})


def versions(out):
    return sorted(path.name for path in (out / "versions").iterdir() if path.is_dir())


def test_current_is_what_was_published_last(tmp_path):
    out = tmp_path / "out"
    publish(out)
    assert current(str(out), "model").read("model/a.txt") == b"one"
    publish(out, "two", replace=True)
    assert current(str(out), "model").read("model/a.txt") == b"two"


def test_versions_are_deleted_once_they_are_no_longer_read(tmp_path, monkeypatch):
    out = tmp_path / "out"
    for k in range(5):
        publish(out, str(k), replace=True)
    assert len(versions(out)) == 5
    monkeypatch.setattr(publishing, "_GRACE_SECONDS", 0.0)
    before = current(str(out), "model").path
    publish(out, "5", replace=True)
    assert len(versions(out)) == 1
    assert not (tmp_path / before).exists()
    assert current(str(out), "model").read("model/a.txt") == b"5"
    assert json.loads((out / MANIFEST).read_text())["superseded"]
    publish(out, "6", replace=True)
    assert len(json.loads((out / MANIFEST).read_text())["superseded"]) == 1


def test_what_dies_leaves_the_previous_version(tmp_path):
    out = tmp_path / "out"
    publish(out)

    def die():
        with publication(str(out), True, "model") as version:
            version.write("model/a.txt", b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        die()
    assert current(str(out), "model").read("model/a.txt") == b"one"
    assert len(versions(out)) == 1
    # A process that is killed cannot clean up; what it wrote is not read.
    (out / "versions" / "30000101T000000-killed").mkdir()
    assert current(str(out), "model").read("model/a.txt") == b"one"


def test_a_first_run_that_died_can_be_repeated(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(publishing, "_GRACE_SECONDS", 0.0)
    out = tmp_path / "out"
    killed = out / "versions" / "20000101T000000-killed"
    killed.mkdir(parents=True)
    publish(out)
    publish(out, "two", replace=True)
    assert current(str(out), "model").read("model/a.txt") == b"two"
    # It may be of a job that still runs.
    assert killed.exists()
    assert "20000101T000000-killed" in caplog.text


def test_nothing_is_overwritten_unasked(tmp_path):
    publish(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"set output\.replace=true"):
        publish(tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(ConfigError, match=r"thesis\.txt"):
        publish(tmp_path / "mine", replace=True)


def test_damage_is_noticed(tmp_path):
    publish(tmp_path / "out")
    version = current(str(tmp_path / "out"), "model")
    path = f"{version.path}/model/a.txt"
    with open(path, "w") as file:
        file.write("eno")
    with pytest.raises(ModelFormatError, match=r"changed file .*a\.txt"):
        current(str(tmp_path / "out"), "model")
    with open(path, "w") as file:
        file.write("o")
    with pytest.raises(ModelFormatError, match=r"found 1 bytes at .*a\.txt"):
        resolve(str(tmp_path / "out"))
    version.filesystem.delete_file(path)
    with pytest.raises(ModelFormatError, match=r"found no file at .*a\.txt"):
        current(str(tmp_path / "out"), "model")


def test_other_formats_and_kinds(tmp_path):
    publish(tmp_path / "out")
    with pytest.raises(
        ConfigError, match=r"found a published model at .*, expected a published data"
    ):
        current(str(tmp_path / "out"), "data")
    with pytest.raises(ConfigError, match="found no publication"):
        current(str(tmp_path / "nowhere"), "model")
    manifest = tmp_path / "out" / MANIFEST
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(ModelFormatError, match="of format 99"):
        current(str(tmp_path / "out"), "model")
    manifest.write_text("{")
    with pytest.raises(ModelFormatError, match="damaged manifest"):
        current(str(tmp_path / "out"), "model")


def test_parts_resolve_to_the_current_version(tmp_path):
    publish(tmp_path / "out")
    version = current(str(tmp_path / "out"), "model")
    assert resolve(str(tmp_path / "out")) == version.uri
    assert resolve(str(tmp_path / "out" / "model")) == f"{version.uri}/model"
    assert resolve(str(tmp_path / "plain")) == f"file://{tmp_path}/plain"
    assert resolve("unreachable://host/x") == "unreachable://host/x"


def test_a_damaged_manifest_can_be_replaced(tmp_path):
    publish(tmp_path / "out")
    (tmp_path / "out" / MANIFEST).write_text("{")
    publish(tmp_path / "out", "two", replace=True)
    assert current(str(tmp_path / "out"), "model").read("model/a.txt") == b"two"


def test_files_that_are_not_listed_are_refused(tmp_path):
    publish(tmp_path / "out")
    version = current(str(tmp_path / "out"), "model")
    version.write("model/.a.txt.crc", b"x")
    version.write(".DS_Store", b"x")
    assert resolve(str(tmp_path / "out")) == version.uri
    version.write("model/late.txt", b"x")
    with pytest.raises(ModelFormatError, match=r"late\.txt, which manifest\.json does not list"):
        resolve(str(tmp_path / "out"))


def test_a_version_without_files_is_no_version(tmp_path):
    def vanishes():
        with publication(str(tmp_path / "out"), False, "model") as version:
            version.write("a.txt", b"x")
            version.filesystem.delete_dir(version.path)

    with pytest.raises(ModelFormatError, match="found no files"):
        vanishes()
    assert not (tmp_path / "out" / MANIFEST).exists()


@pytest.mark.parametrize(
    "wrong",
    [
        "/etc",
        "..",
        "versions/../../other",
        "versions/%2e%2e/other",
        "versions",
        "versions/",
        "../other/versions/20260101T000000000000-00000000",
        "versions/20260101T000000000000-00000000/../../../other",
        "versions/20260101T000000000000-00000000\n",
    ],
)
def test_a_manifest_does_not_lead_outside(tmp_path, wrong):
    other = tmp_path / "other"
    publish(other)
    inner = json.loads((other / MANIFEST).read_text())
    (tmp_path / "out").mkdir()
    manifest = tmp_path / "out" / MANIFEST
    manifest.write_text(json.dumps(inner | {"directory": wrong}))
    with pytest.raises(ModelFormatError, match="damaged manifest"):
        resolve(str(tmp_path / "out"))
    for file in ("../a.txt", "/etc/passwd", "model/../../a.txt", "model//a.txt", "./b.json", ""):
        files = {file: {"bytes": 0, "sha256": "0" * 64}}
        manifest.write_text(json.dumps(inner | {"files": files}))
        with pytest.raises(ModelFormatError, match="damaged manifest"):
            resolve(str(tmp_path / "out"))


@pytest.mark.parametrize("linked", ["versions", "version", "model", "model/a.txt"])
def test_links_do_not_lead_outside(tmp_path, linked):
    out = tmp_path / "out"
    publish(out)
    path = out / "versions"
    if linked != "versions":
        path = path / versions(out)[0]
    if linked.startswith("model"):
        path = path / linked
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    for read in (resolve, lambda place: current(place, "model")):
        with pytest.raises(ModelFormatError, match="found a link"):
            read(str(out))
    # A publication may itself lie behind a link.
    publish(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert current(str(tmp_path / "link"), "model").read("b.json")


@pytest.mark.parametrize(
    "location", ["hdfs:/x/y", "dbfs:/x", "s3a:/x", "S3:/x", "wasbs:/x", "hdfs:x", "dbfs:"]
)
def test_one_slash_makes_a_uri_too(tmp_path, monkeypatch, location):
    def no_answer(bucket):
        raise OSError(f"no answer about {bucket}")

    monkeypatch.setattr(file_systems.fs, "resolve_s3_region", no_answer)
    monkeypatch.chdir(tmp_path)
    assert not is_local(location)
    assert resolve(location) == location
    check_path(location)
    with pytest.raises(ConfigError, match=r"found the location"):
        publish(location)
    assert not list(tmp_path.iterdir())


def test_locations_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    for location in (f"file:{here}/x", f"file://{here}/x", f"FILE://localhost{here}/x", "x", "./x"):
        found = Directory.of(location)
        assert (found.uri, found.path) == (f"file://{here}/x", f"{here}/x")
        assert is_local(location)
    # Spark takes a path as it is written.
    assert Directory.of(f"file://{here}/a%20b").path == f"{here}/a%20b"
    assert Directory.of("/../..//x").path == "/x"
    for wrong in ("file:x", "file://host/x", "a\0b"):
        with pytest.raises(ConfigError, match="found the location"):
            Directory.of(wrong)
    with pytest.raises(ConfigError, match="found nothing at 'file:/no/where'"):
        check_path("file:/no/where")
    publish(tmp_path / "out")
    monkeypatch.chdir("/")
    assert resolve(f"{here}/out/model").endswith("/model")
    assert resolve("/part").endswith("file:///part")


def test_other_file_systems(monkeypatch):
    store = _MockFileSystem()
    written = []
    write = Directory.write

    def noted(self, name, content):
        written.append(name)
        write(self, name, content)

    monkeypatch.setattr(Directory, "write", noted)
    monkeypatch.setattr(Directory, "of", lambda _: Directory("store://out", store, "out"))
    publish("out")
    publish("out", "two", replace=True)
    # One put, for a file of an object store appears whole.
    assert written == ["model/a.txt", "b.json", MANIFEST] * 2
    assert current("out", "model").read("model/a.txt") == b"two"
    [info] = store.get_file_info(["out/versions/.lock"])
    assert info.type == fs.FileType.NotFound


def test_all_is_on_disk_before_it_is_named(tmp_path, monkeypatch):
    import os

    events = []
    fsync, replace = os.fsync, os.replace

    def noted(descriptor):
        events.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def named(source, target):
        events.append(("named", target))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "replace", named)
    out = tmp_path / "new" / "out"
    publish(out)
    version = out / "versions" / versions(out)[0]
    name = events.index(("named", f"{out}/{MANIFEST}"))
    needed = {
        version / "model/a.txt",
        version / "model",
        version / "b.json",
        version,
        out / "versions",
        out,
        tmp_path / "new",
        tmp_path,
        version / f"{MANIFEST}.new",
    }
    assert {str(path) for path in needed} <= set(events[:name])
    assert events[name + 1] == str(out)


def test_kept_versions_are_listed_and_checked(tmp_path):
    out = tmp_path / "out"
    for text in ("one", "two", "three", "four"):
        publish(out, text, replace=True, keep=2)
    found = kept(str(out), "model", hashes=True)
    assert [version.read("model/a.txt") for version in found[:2]] == [b"three", b"two"]
    damaged = Path(found[0].path, "model/a.txt")
    damaged.write_text("THREE")
    assert len(kept(str(out), "model", hashes=False)) == len(found)
    assert [v.path for v in kept(str(out), "model", hashes=True)] == [v.path for v in found[1:]]
    damaged.unlink()
    assert [v.path for v in kept(str(out), "model", hashes=False)] == [v.path for v in found[1:]]
    assert kept(str(out), "scores", hashes=False) == []
    # Publications that keep nothing record no files of superseded versions.
    other = tmp_path / "other"
    for text in ("one", "two"):
        publish(other, text, replace=True)
    assert "files" not in json.loads((other / MANIFEST).read_text())["superseded"][0]
    assert kept(str(other), "model", hashes=False) == []
