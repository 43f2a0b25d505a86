"""What only the rows tell about a raw table that arguments of ``train`` or ``score`` name.

`completed` completes the section: how text is read and the types of its columns, the rows to hold
out by time, the columns to keep with scores. It refuses labels that cannot be learned.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from spark_auc.app.config.jobs import Train
from spark_auc.app.config.scoring import Score
from spark_auc.app.config.sources import Source
from spark_auc.app.config.split import Split
from spark_auc.app.jobs.engines import Engine
from spark_auc.app.jobs.raw_labels import check_labels, start_of_last
from spark_auc.app.jobs.train import estimator_of, names_of, pipeline_of
from spark_auc.features.readings import FORMATS
from spark_auc.pipeline.estimators import MethodEstimator
from spark_auc.pipeline.pair_moments_fit import PairMomentsFit
from spark_auc.pipeline.pipeline_fit import default_recipe
from spark_auc.pipeline.tree_settings import grows_from_all
from spark_auc.tables.table import Table, field_of, fields_by_name, fields_named
from spark_auc.tables.tally import tallied
from spark_auc.tables.text_formats import TIMES_OF_DIGITS
from spark_auc.tables.text_types import Found, inferred, typed
from spark_auc.tables.types import is_text, is_time, of_values

_log = logging.getLogger(__name__)


@contextmanager
def completed(
    engine: Engine, section: Train | Score, options: Mapping[str, Any]
) -> Iterator[Train | Score]:
    """The section, completed from the rows.

    Parameters
    ----------
    engine
        What reads the rows.
    section
        The section, as the arguments alone make it.
    options
        Options of the command line by name.

    Raises
    ------
    ConfigError
        A column or table is unknown, the label needs ``--positive``, or the time is no time.
    DataError
        There are no rows, or the label has not two values.
    """
    if isinstance(section, Score):
        data = engine.completed(section.data)
        with engine.read(data) as table:
            keep = section.keep or list(table.schema.names)
            yield section.model_copy(update={"data": data, "keep": keep})
        return
    data = engine.completed(section.rows)
    with engine.read(data, names_of(section)) as table:
        yield _train(table, section.model_copy(update={"data": data}), options)


def _train(table: Table, train: Train, options: Mapping[str, Any]) -> Train:
    label, data, time = train.columns.label, train.rows, options.get("time")
    fields_named(table, [label, *([time] if time else [])])
    columns, holdout = train.columns, train.holdout
    exact = [label, columns.key, columns.fold]
    exact += [holdout.column] if holdout and holdout.by == "key" else []
    table, data = _typed(table, data, [name for name in exact if name], time)
    train = train.model_copy(update={"data": data})
    field = field_of(table, label)
    if not pa.types.is_boolean(field.type):
        positive = check_labels(
            _labels(table, label), train, is_text=is_text(of_values(field.type))
        )
        columns = train.columns.model_copy(update={"positiveLabel": positive})
        train = train.model_copy(update={"columns": columns})
    if time:
        before = start_of_last(table, time, data.dropMissing)
        holdout = Split.model_validate({"by": "time", "column": time, "before": before})
        train = train.model_copy(update={"holdout": holdout})
    section = train.features
    if section and not section.recipe and not train.method:
        ranker = estimator_of(train)
        trees = section.trees.model_dump(exclude_unset=True) if section.trees else None
        free = {
            name: value
            for name, value in default_recipe(trees).items()
            if name not in section.model_fields_set and (ranker.selects or name == "crosses")
        }
        train = train.model_copy(update={"features": section.model_copy(update=free)})
        if not ranker.selects:
            return train
        if not (train.select or train.embeddings or train.moments):
            chosen = train.model_copy(update={"method": "linear"})
            estimator = pipeline_of(chosen)
            if isinstance(estimator, MethodEstimator) and estimator.can_choose:
                return chosen
        is_free = "smoothness" not in train.training.model_fields_set and not train.embeddings
        is_free = is_free and not grows_from_all(trees)
        if is_free and isinstance(ranker, PairMomentsFit) and ranker.smooth is not ranker:
            training = train.training.model_copy(update={"smoothness": "auto"})
            train = train.model_copy(update={"training": training})
    return train


def _typed(
    table: Table, data: Source, exact: Sequence[str], time: str | None
) -> tuple[Table, Source]:
    """The rows and the source with the formats of the values of its text; see `inferred`."""
    if data.select is not None:
        return table, data
    readings = data.readings()
    lookup = fields_by_name(table)
    given = {field.name for reading in readings for field in lookup(reading.name)}
    rest = [name for name in table.schema.names if name not in given]
    found = dict[str, Found]()
    if data.format in ("csv", "json") and rest:
        found = inferred(table.select(rest), exact)
    if data.format == "json":
        found = {n: one for n, one in found.items() if FORMATS[one.reading.format] == "time"}
    made = typed(table, [*readings, *(one.reading for one in found.values())])
    if time is not None and not is_time(field_of(made, time).type):
        digits = table.select([field_of(table, time).name])
        found |= inferred(digits, formats=TIMES_OF_DIGITS)
    for one in found.values():
        if one.odd:
            _log.warning("%s", one.sentence())
    readings += [one.reading for one in found.values()]
    _log.info("formats of columns of text: %s", {r.name: r.format for r in readings})
    update = {
        "types": {reading.name: reading.format for reading in readings} or None,
        "missingWords": {r.name: [*r.absent] for r in readings if r.absent},
    }
    return typed(table, readings), data.model_copy(update=update)


def _labels(table: Table, label: str) -> dict[Any, int]:
    """Number of rows of each label, the most frequent first; None stands for no label."""
    tally = tallied(table, label)
    convert: Any = str if is_text(of_values(field_of(table, label).type)) else _number
    found = {convert(v): int(n) for v, n in zip(tally.values, tally.rows, strict=True)}
    if tally.missing:
        found[None] = tally.missing
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number
