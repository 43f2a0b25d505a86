"""What runs draw, and what is equal in two runs; without a cluster."""

import json
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_auc.app.known import JOBS as NAMES
from tests.cluster.draw import LEAST, TARGETS, triples
from tests.cluster.jobs import JOBS, bits_of


@pytest.mark.parametrize("first", [0, 7, 123456789])
@pytest.mark.parametrize("count", [LEAST, 20])
def test_ten_runs_kill_every_target_of_every_job(first, count):
    runs = [triples(seed, count) for seed in range(first, first + 10)]
    assert {len(run) for run in runs} == {count}
    assert {t[:2] for run in runs for t in run} == set(product(JOBS, TARGETS))
    assert {job.name for job in JOBS.values()} == set(NAMES)


def test_a_seed_repeats_its_run():
    assert triples(5, 20) == triples(5, 20) != triples(15, 20)
    with pytest.raises(ValueError, match="found 4 triples"):
        triples(0, 4)


def test_bits_see_values_and_rows_but_no_times(tmp_path):
    def left(x, weights, seconds=1.0, uid="Ranker_0123456789ab"):
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        (place / "scores").mkdir(parents=True)
        pq.write_table(pa.table({"x": x}), place / "scores" / f"{len(x)}-{place.name}.parquet")
        (place / "model" / "metadata").mkdir(parents=True)
        (place / "model" / "metadata" / "part-00000").write_text(json.dumps({"parts": [uid]}))
        (place / "summary.json").write_text(json.dumps({"w": weights, "seconds": seconds}))
        return bits_of(place)

    made = left([1.0, 2.0], 0.1)
    assert left([2.0, 1.0], 0.1, seconds=9.0) == made
    assert left([1.0, 2.0], 0.1, uid="Ranker_ba9876543210") == made
    assert left([1.0, 2.0], 0.1, uid="Other_0123456789ab") != made
    assert left([1.0, 2.0, 2.0], 0.1) != made
    assert left([1.0, 2.0 + 4e-16], 0.1) != made
    assert left([1.0, 2.0], 0.1 + 2e-17) != made
