"""Train a linear ranker for AUC, and publish it.

Section ``train`` of the configuration: data (parquet, csv, libsvm, any Spark format, or a
table), columns, features (a recipe of raw columns), embeddings, learner (an estimator,
MBAClassifier by default), training (its Params), select (a grid of penalties for cross-validation),
method (auto: a choice among models of the blocks of features, in place of these three), prior (a
published model as the centre of the penalty), calibration, holdout (rows to evaluate on), output,
and moments: those of a store or of published models, with or without new rows in data.
Publishes ``model`` (loaded by ``RankerPipelineModel.load``), ``config.json`` and ``summary.json``;
``recipe.json`` and ``columns.json`` (what became of each column) with features,
``moments.parquet`` if saveMoments is true, ``selection.json`` and
``selection.png`` if the penalty was selected, ``method.json`` if the model was chosen among
several, and the files of the job ``evaluate`` if rows are held out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_auc.app.config.jobs import Measures, Train
from spark_auc.app.config.training import estimator_class
from spark_auc.app.jobs.columns import column_facts, log_columns
from spark_auc.app.jobs.engines import Engine, Needs
from spark_auc.app.jobs.evaluation import (
    drift_of_evaluated,
    evaluation,
    facts_of,
    write_evaluation,
)
from spark_auc.app.jobs.published_model import KIND, check_model, read_model, write_model
from spark_auc.app.jobs.raw_rows import embeddings_of, recipe_of
from spark_auc.app.report.penalties import penalties
from spark_auc.app.report.pictures import check_packages, drawable, png
from spark_auc.errors import ConfigError
from spark_auc.pipeline.copies import warn_of_copies
from spark_auc.pipeline.estimators import (
    HingeEstimator,
    MBAEstimator,
    MBASelectingEstimator,
    MethodEstimator,
    PipelineEstimator,
)
from spark_auc.pipeline.method_fit import ADDED, DEFAULT
from spark_auc.pipeline.models import PipelineModel
from spark_auc.pipeline.ranker_fit import FoldsFit
from spark_auc.pipeline.ranker_settings import OUTPUTS
from spark_auc.publication.directory import Directory
from spark_auc.publication.publish import check_free, publication
from spark_auc.tables.names import check_names_free
from spark_auc.tables.split import by_key, by_time
from spark_auc.tables.table import Table
from spark_auc.tables.text_types import odd_words

if TYPE_CHECKING:
    from spark_auc.core.moments.pair_moments import PairMoments

_log = logging.getLogger(__name__)

# The learners that every engine has.
_LEARNERS: Mapping[str, Any] = {"MBAClassifier": MBAEstimator, "RankSVMClassifier": HingeEstimator}


def needs(config: Train) -> Needs:
    """The sources of the job, and its properties that Spark alone serves."""
    calibration = [config.calibration.data] if config.calibration else []
    reasons = {
        "embeddings": bool(config.embeddings),
        "stored moments": config.moments is not None,
        f"learner {config.learner}": config.learner not in _LEARNERS,
    }
    return Needs([*([config.data] if config.data else []), *calibration], reasons)


def check(config: Train) -> None:
    """Check the configuration before work begins.

    Raises
    ------
    ConfigError
        A setting, a path or an output location is invalid.
    """
    if config.moments is not None:
        import spark_auc.store  # noqa: F401
    if config.prior:
        if config.embeddings:
            raise ConfigError(
                f"found train.prior with {len(config.embeddings)} embeddings, expected none: "
                "features of two embeddings do not correspond; leave out one of them"
            )
        check_model(config.prior)
    pipeline = pipeline_of(config)
    pipeline.check()
    new = _outputs(config)
    if config.data is not None:
        names = config.columns
        holdout = None if config.holdout is None else config.holdout.column
        config.data.check(names.label, names.weight, names.key, names.fold, holdout, new=new)
    if config.calibration:
        config.calibration.data.check(new=new)
    if pipeline.ranker.selects or config.holdout:
        check_packages()
    check_free(config.output.path, config.output.replace)


def run(engine: Engine, config: Train) -> dict[str, Any]:
    """Run the job, and return its result for standard output.

    Raises
    ------
    SparkAUCError
        The job failed; nothing is published.
    """
    # A raw table has its method by now.
    if config.budget is not None and not config.method:
        raise ConfigError(
            f"found train.budget {config.budget:g} without a choice of models, whose candidates it "
            "limits; set train.method to linear or auto, and leave out settings that contradict it"
        )
    names = names_of(config)
    with ExitStack() as stack:
        rows = None
        if config.data is not None:
            rows = stack.enter_context(engine.read(config.data, names))
            check_names_free(rows.schema.names, _outputs(config), exact=rows.exact_names)
        calibrating = None
        if config.calibration:
            calibrating = stack.enter_context(engine.read(config.calibration.data, names))
            new = calibrating.schema.names
            check_names_free(new, _outputs(config), exact=calibrating.exact_names)
        version = stack.enter_context(publication(config.output.path, config.output.replace, KIND))
        train, test = rows, None
        if rows is not None:
            train, test = _halves(rows, config)
        measured, others = _fitted(config, train)
        split = config.holdout
        if split and split.by != "key" and config.columns.key:
            # A cut by time is often meant to measure later rows of known keys.
            _log.log(
                logging.INFO if split.by == "time" else logging.WARNING,
                "rows of one key can be in both parts of a holdout by %s: its AUC is not that of "
                "rows of new keys; hold out by key to measure these",
                split.by,
            )
        if train and test and split and split.by == "key" and not (split.column or config.moments):
            label = config.columns.label, config.columns.positiveLabel
            warn_of_copies(train, test, measured, label, _unused(config))
        model = measured = _calibrated(measured, config, calibrating)
        if rows is not None and _refits(config):
            _log.info("training again on all rows, with the recipe and the penalty chosen")
            model = pipeline_of(config, _prior(config)).fitted_again(measured, rows)
            model = _calibrated(model, config, calibrating)
        written = _write(version, model, config, others)
        columns = _columns(engine, version, model, config, train)
        if test is None:
            return written
        return written | _evaluated(version, measured, model, config, test, columns)


def _refits(config: Train) -> bool:
    """Whether the published model is that of all rows, and the measured one is not."""
    return config.refit and config.holdout is not None and config.moments is None


def _calibrated(model: PipelineModel, config: Train, table: Table | None) -> PipelineModel:
    """The model with the calibration of the configuration, if it has one."""
    made = config.calibration
    if made is None or table is None:
        return model
    return model.calibrated(table, made.method, made.negativeSamplingRate, made.probabilityCol)


def names_of(config: Train) -> list[str] | None:
    """Names of columns, which may be paths of fields; None if a recipe chooses among all."""
    if config.features is not None and config.features.auto:
        return None
    columns, holdout = config.columns, config.holdout
    found: list[Any] = [columns.label, columns.weight, columns.key, columns.fold]
    found += [holdout.column] if holdout else []
    found += [config.training.model_dump().get("segmentCol")]
    if config.features is None:
        features = columns.features
        found += [features] if isinstance(features, str) else features
    else:
        lists = [value for value in config.features.params().values() if isinstance(value, list)]
        found += [name for names in lists for name in names]
    return [name for name in found if isinstance(name, str)]


def _halves(table: Table, config: Train) -> tuple[Table, Table | None]:
    """The rows to train on, and those to test on; all and None without a split."""
    split, columns = config.holdout, config.columns
    if split is None:
        return table, None
    if split.by == "key":
        label = (columns.label, columns.positiveLabel)
        return by_key(table, split.train, split.seed, split.column, label, _unused(config))
    if split.by == "position":
        return table.cut(split.train)
    assert split.column is not None
    assert split.before is not None
    return by_time(table, split.column, split.before)


def _unused(config: Train) -> list[str]:
    """Columns, beside the label, that the configuration names and that are no features."""
    columns, section = config.columns, config.features
    left_out = (section.params().get("leaveOut") if section else None) or ()
    return [name for name in (columns.weight, columns.fold, *left_out) if name]


def _fitted(config: Train, table: Table | None) -> tuple[PipelineModel, dict[str, Any]]:
    """The model of the rows and of the moments, and what the moments are of."""
    if config.moments is None:
        assert table is not None
        model: PipelineModel = pipeline_of(config, _prior(config)).fitted(table)
        return model, {}
    # The package deltalake is optional: a training on rows runs without it.
    from spark_auc.app.jobs.train_moments import trained_on_moments

    model, told = trained_on_moments(config, estimator_of(config, _prior(config)), table)
    return model, {"moments": told}


def _prior(config: Train) -> PipelineModel | None:
    return read_model(config.prior) if config.prior else None


def pipeline_of(
    config: Train, prior: PipelineModel | None = None
) -> MethodEstimator | PipelineEstimator:
    """The stages that the configuration names; see `estimator_of`."""
    holdout, section, ranker = config.holdout, config.features, estimator_of(config, prior)
    keys = [holdout.column] if holdout and holdout.by == "key" and holdout.column else []
    recipe = [recipe_of(section, keys)] if section else []
    if config.method:
        assert section is not None
        # A key that is set to null declines what the choice would add.
        declined = section.model_fields_set | config.training.model_fields_set
        known = ADDED if config.method == "auto" else DEFAULT
        added = [name for name in known if name not in declined]
        return MethodEstimator(recipe[0], ranker, added, config.budget)
    embeddings = embeddings_of(config.embeddings, config.columns)
    return PipelineEstimator([*recipe, *embeddings, ranker])


def estimator_of(config: Train, prior: PipelineModel | None = None) -> Any:
    """The estimator of the learner, or of select, with the values that the configuration sets.

    Without the prior itself, its location stands for it, for checks before work.
    """
    columns = config.columns
    named: dict[str, Any] = {
        "featuresCol": columns.features,
        "numFeatures": columns.numFeatures,
        "labelCol": columns.label,
        "positiveLabel": columns.positiveLabel,
        "weightCol": columns.weight,
        "keyCol": columns.key,
        "foldCol": columns.fold,
        "keepMoments": config.saveMoments or None,
        "prior": prior or config.prior,
    }
    named = {name: value for name, value in named.items() if value is not None}
    training = config.training.model_dump(exclude_unset=True)
    if config.select:
        select = config.select.model_dump(exclude_unset=True)
        return MBASelectingEstimator(**named, **training, **select)
    kind = _LEARNERS.get(config.learner) or estimator_class("learner", config.learner)
    made, split = kind(**named, **training), config.holdout
    holds_out = split is not None and split.by == "key" and split.column == columns.key
    if holds_out and isinstance(made, FoldsFit) and not made.uses_key:
        # The key is that of the holdout alone.
        named.pop("keyCol", None)
        return kind(**named, **training)
    return made


def _outputs(config: Train) -> dict[str, str | None]:
    """Names of the columns that the model adds to rows, by their keys."""
    values = estimator_of(config).values()
    named: dict[str, str | None] = {f"train.training.{name}": values[name] for name in OUTPUTS}
    if config.calibration:
        named["train.calibration.probabilityCol"] = config.calibration.probabilityCol
    return named


def _write(
    version: Directory, model: PipelineModel, config: Train, others: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a model with how it was chosen, and return the job's result.

    ``others`` are further values of the summary and of the result.
    """
    summary = write_model(version, model, config, **others)
    selection = model.ranker.summary.selection
    if selection:
        version.write_json("selection.json", selection)
        if drawable():
            version.write("selection.png", png(penalties(selection)))
        if methods := selection.get("methods"):
            version.write_json("method.json", methods)
    if model.ranker.moments is not None:
        version.write("moments.parquet", _moments_table(model.ranker.moments))
    methods = (selection or {}).get("methods")
    return {
        "model": config.output.path,
        **({"method": methods["candidates"][methods["chosen"]]["name"]} if methods else {}),
        "features": model.ranker.numFeatures,
        "nonzeros": summary["nonzeros"],
        "regParam": summary["reg_param"],
        "elasticNetParam": summary["elastic_net_param"],
        **({"smoothness": summary["smoothness"]} if "smoothness" in summary else {}),
        "estimator": summary["estimator"],
        "numPairs": summary["pairs"],
        "estimatedAUC": summary["estimated_auc"],
        "rows": summary["rows"],
        "certificate": summary["certificate"],
        **({"prior": summary["prior"]} if "prior" in summary else {}),
        **({"maxFPR": summary["max_fpr"]} if "max_fpr" in summary else {}),
        "phases": summary["seconds"],
        **others,
    }


def _columns(
    engine: Engine, version: Directory, model: PipelineModel, config: Train, table: Table | None
) -> list[dict[str, Any]]:
    """Write and log what became of the columns of raw rows, and return it."""
    fitted = model.fitted_recipe
    if fitted is None or table is None:
        return []
    words = dict[str, Mapping[str, int]]()
    if odd := [reading for reading in config.rows.readings() if reading.absent]:
        text = config.rows.model_copy(update={"types": None, "missingWords": {}})
        with engine.read(text, names_of(config)) as rows:
            words = odd_words(rows, odd)
    columns, holdout = config.columns, config.holdout
    # Of the roles of one column, the last is told.
    roles = {
        "key of the holdout": holdout.column if holdout and holdout.by == "key" else None,
        "label": columns.label,
        "weight": columns.weight,
        "key": columns.key,
        "fold": columns.fold,
    }
    facts = column_facts(table, fitted, roles, words)
    log_columns(facts)
    version.write_json("columns.json", {"columns": facts})
    return facts


def _evaluated(
    version: Directory,
    measured: PipelineModel,
    model: PipelineModel,
    config: Train,
    test: Table,
    columns: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Write the evaluation of held-out rows, and return the keys of the job's result.

    ``measured`` did not train on these rows; ``model`` is published.
    """
    told = config.model_dump(mode="json", include={"data", "holdout"}, exclude_none=True)
    data, segments = told["data"] | {"holdout": told["holdout"]}, measured.ranker.segments
    # A group for each ranker: the column can have many more values.
    measures = Measures(groupCol=None if segments is None else segments.column)
    path = config.output.path
    result, groups = evaluation(measured, test, measures, path, data, segments)
    if measured is not model:
        refit = {"measuredRows": _rows(measured), "publishedRows": _rows(model)}
        result |= facts_of(model, path, data) | {"refit": refit}
    drift = drift_of_evaluated(measured, test) if config.drift else {}
    report = write_evaluation(
        version,
        result | drift,
        model.ranker.scorer.w,
        model.recipe,
        groups=groups,
        embedded=bool(model.embeddings),
        columns=columns,
    )
    told = {name: result[name] for name in ("auc", "interval", "refit") if name in result}
    return {**told, "report": report, **drift}


def _rows(model: PipelineModel) -> int:
    return sum(model.summary.rows.values())


def _moments_table(moments: PairMoments) -> bytes:
    names, tiles = zip(*moments.parts(), strict=True)
    table = pa.table({"tile": list(names), "moments": [t.to_bytes() for t in tiles]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())
