"""The columns of local files, which a job compares with its settings before Spark starts."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Collection, Mapping

from spark_auc.app.config.sections import Setting, text_of
from spark_auc.errors import unknown_column
from spark_auc.publication.versions import resolve
from spark_auc.storage.file_systems import compression_of, is_local
from spark_auc.tables.delimited import separator_in
from spark_auc.tables.layouts import layout_of
from spark_auc.tables.names import check_names_free, folded

_LONGEST = 1 << 20
# Options of Spark's reader by which the first line is not the one that is read here.
_OTHERS = {"quote", "encoding", "charset", "linesep", "comment"}


def check_columns(
    path: str,
    form: str,
    options: Mapping[str, Setting],
    names: Collection[str | None],
    new: Mapping[str, str | None] | None = None,
) -> None:
    """Check that a local Parquet or text file has columns, and not those that a job adds.

    Other files are left to Spark. The case of names is ignored, as by Spark's default.

    Parameters
    ----------
    path, form, options
        The file, its format, and the options of Spark's reader.
    names
        Names of the columns; None for a column that is not used.
    new
        Names of new columns by the keys that name them.

    Raises
    ------
    ConfigError
        The file has no column of a name, or one of a new name.
    """
    file = resolve(path).removeprefix("file://")
    if not is_local(path) or not os.path.isfile(file):
        return
    found = _parquet(file) if form == "parquet" else _csv(file, options) if form == "csv" else []
    if layout := layout_of(form, {key: text_of(value) for key, value in options.items()}):
        found = [*layout.names]
    known = {folded(name) for name in found}
    for name in names:
        # Spark may keep the spaces around a name.
        if found and name is not None and folded(name.strip()) not in known:
            raise unknown_column(name, found)
    check_names_free(found, new or {})


def _parquet(file: str) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from spark_auc.tables.nested import paths_of

    try:
        fields = list(pq.read_schema(file))
        return [name for field in fields for name in (field.name, *paths_of(field))]
    except (pa.ArrowException, OSError):
        return []


def _csv(file: str, options: Mapping[str, Setting]) -> list[str]:
    """The names in the first line; none if the line could be read in several ways."""
    texts = {key.lower(): text_of(value) for key, value in options.items()}
    if texts.get("header") != "true" or _OTHERS & {*texts} or compression_of(file):
        return []
    with open(file, encoding="utf-8-sig", errors="replace", newline="") as opened:
        line = opened.readline(_LONGEST).rstrip("\r\n")
    if line.lower().startswith("sep="):
        return []
    separator = texts.get("sep", texts.get("delimiter")) or separator_in(line)
    kinds = {*",;\t|"} & {*re.sub('"[^"]*"', "", line)}
    is_clear = "sep" in texts or "delimiter" in texts or len(kinds) <= 1
    if not is_clear or len(separator) > 1 or "\\" in line or line.count('"') % 2:
        return []
    names = [name.strip() for name in next(csv.reader([line], delimiter=separator), [])]
    # Spark gives columns without a name, or of one name, other names.
    return [] if "" in names or len({*map(folded, names)}) < len(names) else names
