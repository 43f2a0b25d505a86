"""Artefacts of released versions are read to the same bits or refused by name."""

import json

import numpy as np
import pytest

from spark_auc.errors import ModelFormatError
from tests.fixtures.make import ROOT, STORED, contents, scored
from tests.fuzz.stored_states import kinds

# Artefacts that this version does not read, as "VERSION/NAME".
REFUSED: set[str] = set()
# Exponentials, cosines and products with landmarks depend on the processor in their last bits.
ROUNDED = ("FourierMap", "NetworkMap", "NystroemMap")
EXPECTED = {
    f"{where.parent.name}/{name}": value
    for where in sorted(ROOT.glob("*/expected.json"))
    for name, value in json.loads(where.read_text()).items()
}
STATES = [name for name in EXPECTED if name.endswith(".bin")]
STAGES = [name for name in EXPECTED if not name.endswith(".bin")]
CLASSES = {kind.__name__: kind for kind in kinds()}


def kind_of(name):
    return name.split("/")[1].split("-")[0]


def test_all_kinds_are_there():
    assert {kind_of(name) for name in STATES} == set(STORED)
    assert {name.split("/")[1] for name in STAGES} == {"model", "pipeline"}
    assert set(EXPECTED) >= REFUSED
    sizes = [f.stat().st_size for f in ROOT.rglob("*") if f.is_file() and f.suffix != ".pyc"]
    assert max(sizes) < 50_000


@pytest.mark.parametrize("name", STATES)
def test_states_hold_the_same_numbers(name):
    data, kind = (ROOT / name).read_bytes(), CLASSES[kind_of(name)]
    if name in REFUSED:
        with pytest.raises(ModelFormatError, match=r"found .*version .*expected"):
            kind.from_bytes(data)
        return
    actual, expected = contents(kind.from_bytes(data)), EXPECTED[name]
    if kind.__name__ in ROUNDED:
        actual, expected = ([*map(float.fromhex, m["embedded"])] for m in (actual, expected))
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-14)
    else:
        assert actual == expected


@pytest.mark.parametrize("name", STAGES)
def test_stages_give_the_same_scores(spark, name):
    from pyspark.ml import PipelineModel

    from spark_auc import LinearRankerModel

    kind = PipelineModel if name.endswith("pipeline") else LinearRankerModel
    if name in REFUSED:
        with pytest.raises(ModelFormatError, match=r"found .*version .*expected"):
            kind.load(str(ROOT / name))
        return
    assert scored(spark, kind.load(str(ROOT / name))) == EXPECTED[name]
