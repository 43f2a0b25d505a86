"""The look-up of columns by their names."""

import pyarrow as pa

from spark_auc.tables import names
from spark_auc.tables.arrow_table import ArrowTable


def test_each_name_is_compared_once_however_many_columns_are_selected(monkeypatch):
    columns = [f"C{k}" for k in range(500)]
    table = ArrowTable.of(pa.table({name: [1.0] for name in columns}))
    compared, whole = [], names.folded
    monkeypatch.setattr(names, "folded", lambda name: compared.append(name) or whole(name))
    assert table.select([name.lower() for name in columns]).schema.names == columns
    assert len(compared) <= 3 * len(columns)
