"""Outputs appear whole or not at all."""

import json

import pytest

from spark_auc.app.publish import MANIFEST, current, publication, resolve
from spark_auc.errors import ConfigError, ModelFormatError


def publish(path, text="one", replace=False):
    with publication(str(path), replace, "model") as version:
        version.write("model/a.txt", text.encode())
        version.write_json("b.json", {"x": 1})


def test_current_is_what_was_published_last(tmp_path):
    out = tmp_path / "out"
    publish(out)
    assert current(str(out), "model").read("model/a.txt") == b"one"
    publish(out, "two", replace=True)
    assert current(str(out), "model").read("model/a.txt") == b"two"
    for k in range(3):
        publish(out, str(k), replace=True)
    assert len(list((out / "versions").iterdir())) == 2
    assert current(str(out), "model").read("model/a.txt") == b"2"


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
    assert len(list((out / "versions").iterdir())) == 1
    # A process that is killed cannot clean up; what it wrote is not read.
    (out / "versions" / "30000101T000000-killed").mkdir()
    assert current(str(out), "model").read("model/a.txt") == b"one"


def test_a_first_run_that_died_can_be_repeated(tmp_path):
    out = tmp_path / "out"
    (out / "versions" / "20000101T000000-killed").mkdir(parents=True)
    publish(out)
    assert current(str(out), "model").read("model/a.txt") == b"one"


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
    with pytest.raises(ConfigError, match="found nothing published"):
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
