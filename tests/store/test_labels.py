"""The negative label beside the facts of a store."""

from contextlib import nullcontext

import pytest

from spark_auc.errors import DataError, ModelFormatError
from spark_auc.store import stored_labels
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.rows import PARTITIONS, TABLE, text_row
from spark_auc.store.stored_labels import has_negative_label, negative_label, store_negative_label
from spark_auc.store.table import Table
from tests.store.periods import DAYS, FACTS, folds_of


@pytest.mark.parametrize("label", [-1.0, 0.0, "no"])
def test_a_label_is_stored_once_for_each_schema_id(tmp_path, label):
    place, other = str(tmp_path), Facts(FACTS.dimension, FACTS.folds, 9)
    assert negative_label(place, FACTS) is None
    assert not has_negative_label(place, FACTS, label)
    store_negative_label(place, FACTS, label)
    store = MomentStore(place, FACTS)
    store.put(DAYS[0], "rows", folds_of("a"))
    version = store.version
    store_negative_label(place, FACTS, label)
    store.refresh()
    assert store.version == version
    assert has_negative_label(place, FACTS, label)
    for refused in (has_negative_label, store_negative_label):
        with pytest.raises(DataError, match="found the negative label 2"):
            refused(place, FACTS, 2.0)
    assert (negative_label(place, FACTS), negative_label(place, other)) == (label, None)
    # It is no period and no schema id of the store.
    assert store.periods() == (DAYS[0],)
    assert [source.period for source in store.sizes()] == [DAYS[0]]
    assert MomentStore.stored_facts(place) == {FACTS.schema_id: FACTS}
    assert MomentStore(place, other, full_refresh=True).lacking(FACTS.schema_id) == (DAYS[0],)


@pytest.mark.parametrize("label", [-1.0, 0.0])
def test_of_two_writers_the_first_decides(tmp_path, monkeypatch, label):
    place, read = str(tmp_path), stored_labels._read
    MomentStore(place, FACTS).put(DAYS[0], "rows", folds_of("a"))

    def read_before_the_other_stores(table, facts):
        monkeypatch.setattr(stored_labels, "_read", read)
        assert read(table, facts) is None
        store_negative_label(place, FACTS, -1.0)

    monkeypatch.setattr(stored_labels, "_read", read_before_the_other_stores)
    with nullcontext() if label else pytest.raises(DataError, match="expected -1"):
        store_negative_label(place, FACTS, label)
    assert negative_label(place, FACTS) == -1.0


def test_a_damaged_label_is_refused(tmp_path):
    place = str(tmp_path)
    store_negative_label(place, FACTS, -1.0)
    source = stored_labels._place(FACTS)
    good = stored_labels._text(FACTS, -1.0)
    for text in (good.replace("-1.0", "0.0"), "{", "[]", '{"negativeLabel": 0.0}'):
        Table(place, TABLE, PARTITIONS).replace(
            source.predicate(), iter([text_row(text, source)]), 1
        )
        with pytest.raises(ModelFormatError, match="damaged negative label"):
            negative_label(place, FACTS)
