"""Write a commented configuration for a table: the jobs train, score and evaluate.

``spark-auc init DIR --from FILE_OR_TABLE --label COLUMN`` reads the columns of a table, as
``spark-auc train --data`` does, and writes DIR/config.yaml. Without --from, the table is a sample
that it writes beside it. Nothing is overwritten. Paths in the file are from the directory in which
the command runs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_auc.app.config.arguments import (
    add_table_options,
    content,
    listed,
    options_of,
)
from spark_auc.app.config.jobs import Configuration, Train
from spark_auc.app.config.load import configured
from spark_auc.app.config.sections import Section
from spark_auc.app.config.sources import Source
from spark_auc.app.config.written import written
from spark_auc.errors import ConfigError
from spark_auc.publication.directory import Directory
from spark_auc.publication.redaction import redacted
from spark_auc.storage.file_systems import COMPRESSED, is_local
from spark_auc.tables.types import shown_type

FILE = "config.yaml"
_HEADER = """\
# Paths are from the directory in which a job runs. `train` holds out rows and measures AUC on
# them. `score` and `evaluate` read new rows from {new}; `evaluate` needs their labels.
# `spark-auc JOB --help` lists all keys of a job.
"""
_ROWS = 5_000
# Keys that the file has behind a # if they are not set.
_SHOWN = {
    "train": (
        *("data.where", "columns.positiveLabel", "columns.weight", "columns.key", "method"),
        *("features.leaveOut", "features.spline", "features.tokens", "features.auto"),
        *("training.regParam", "training.numFolds", "training.maxFPR", "calibration", "prior"),
    ),
    "score": ("threshold", "handleInvalid", "contributions"),
    "evaluate": ("measures.groupCol", "measures.maxFPR", "measures.costRatio"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("directory", metavar="DIR", help="directory of the file; made if missing")
    parser.add_argument(
        "--from",
        dest="data",
        metavar="FILE_OR_TABLE",
        help="CSV, TSV, JSON or Parquet, or a table; default: a sample",
    )
    add_table_options(parser.add_argument)
    parser.add_argument("overrides", nargs="*", metavar="dotted.key=value")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the file, and return the command's result for standard output.

    Raises
    ------
    ConfigError
        The directory or an argument cannot be used, or a file of the name exists.
    DataError
        The rows cannot be used; see `spark_auc.app.jobs.raw_table.completed`.
    """
    directory, options = arguments.directory, options_of(arguments)
    _check_place(directory, sample="data" not in options)
    if "data" in options:
        options.setdefault("label", "label")
        text, facts = _text(directory, options, options["data"], arguments.overrides)
        _place_file(Path(directory), text)
    else:
        if options:
            raise ConfigError(
                f"found {listed(options)} without --from, expected them for a table; add --from"
            )
        facts = _place_sample(Path(directory), arguments.overrides)
    path = os.path.join(directory, FILE)
    steps = {
        job: f"spark-auc {job} --config {shlex.quote(path)}"
        for job in ("train", "score", "evaluate")
    }
    print(f"wrote {path}; next: {steps['train']}")
    return {"config": path, **facts, "next": steps}


def _check_place(directory: str, sample: bool) -> None:
    if not is_local(directory) or "\0" in directory:
        raise ConfigError(f"found the directory {directory!r}, expected a local path; set one")
    there = Path(directory)
    if there.exists() and not there.is_dir():
        raise ConfigError(f"found the file {directory!r}, expected a directory; set another name")
    if sample and there.is_dir() and any(there.iterdir()):
        raise _occupied(f"files in {directory!r}", "an empty or new directory for the sample")
    if os.path.lexists(there / FILE):
        raise _occupied(f"the file {str(there / FILE)!r}", "none")


def _occupied(found: str, expected: str) -> ConfigError:
    return ConfigError(f"found {found}, expected {expected}; set another directory, or remove it")


def _place_file(directory: Path, text: str) -> None:
    """The file in the directory, whole or not at all, and never over another one."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".init-", dir=directory) as made:
        place = Directory.of(made)
        place.write(FILE, text.encode())
        place.flush(FILE)
        try:
            os.link(os.path.join(made, FILE), directory / FILE)
        except FileExistsError:
            raise _occupied(f"the file {str(directory / FILE)!r}", "none") from None


def _place_sample(directory: Path, overrides: list[str]) -> dict[str, Any]:
    """The file and its rows in a new directory, by one rename."""
    from spark_auc.app.raw_clicks import LABEL, raw_clicks, write

    directory.absolute().parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".init-", dir=directory.absolute().parent))
    try:
        write(raw_clicks(_ROWS)[0], made / "clicks.csv")
        write(raw_clicks(_ROWS // 4, part=1)[0], made / "new.csv")
        rows = str(made / "clicks.csv")
        options = {"data": rows, "label": LABEL, "time": "time"}
        text, facts = _text(str(directory), options, str(directory / "clicks.csv"), overrides)
        Directory.of(str(made)).write(FILE, text.encode())
        Directory.of(str(made)).synchronize()
        made.chmod(0o755)
        try:
            made.rename(directory)
        except OSError:
            raise _occupied(f"files in {str(directory)!r}", "an empty or new directory") from None
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return facts


def _text(
    directory: str, options: Mapping[str, Any], named: str, overrides: list[str]
) -> tuple[str, dict[str, Any]]:
    """The text of the file, and what is in it.

    Parameters
    ----------
    directory
        The directory of the file and of the jobs' outputs.
    options
        Options of a raw table; "data" is where the rows are now.
    named
        Where the file says that they are.
    overrides
        Overrides of its content.
    """
    from spark_auc.app.jobs.engines import opened, reason_for_spark
    from spark_auc.app.jobs.raw_table import completed
    from spark_auc.app.jobs.train import needs

    def output(name: str) -> dict[str, Any]:
        return {"path": os.path.join(directory, name), "replace": True}

    parsed = content("train", {**options, "output": output("model")["path"]})
    parsed["train"]["output"] = output("model")
    file = configured(parsed, "the arguments", overrides)
    train = file.train
    if train is None or train.data is None:
        raise ConfigError("found no rows in train, expected them; leave out such overrides")
    if redacted(parsed) != parsed:
        raise ConfigError(
            "found a secret in the arguments, expected none, as the file would have it; set it in "
            "spark-defaults.conf, or when a job runs"
        )
    train.data.check(train.columns.label)
    reason = reason_for_spark(needs(train), file.spark, file.engine)
    with (
        opened("spark_auc init", file.spark, reason) as engine,
        completed(engine, train, options) as known,
    ):
        assert isinstance(known, Train)
        with engine.read(known.rows) as table:
            types = {field.name: shown_type(field) for field in table.schema}
    data, label = known.rows, train.columns.label
    columns = [name for name in types if name != label]
    # Each column has a line, by which it can be left out.
    items = dict(zip(types, data.select or types, strict=False))
    data = data.model_copy(update={"select": data.select or list(types)})
    if data.path is not None:
        data = data.model_copy(update={"path": named})
    new, model = _new_rows(directory, data), {"model": output("model")["path"]}
    unlabelled = new | {"select": [item for name, item in items.items() if name != label]}
    sections = {
        **({"spark": parsed["spark"]} if "spark" in parsed else {}),
        "train": _content(known.model_copy(update={"data": data})),
        "score": model | {"data": unlabelled, "keep": columns, "output": output("scores")},
        "evaluate": model | {"data": new, "output": output("evaluation")},
    }
    shown = [f"{job}.{name}" for job, names in _SHOWN.items() for name in names]
    notes = {"select": {item: types[name] for name, item in items.items()}}
    text = _HEADER.format(new=new.get("path") or new["table"])
    text += written(Configuration, sections, shown, notes)
    return text, {"label": label, "columns": types}


def _content(section: Section) -> dict[str, Any]:
    return section.model_dump(exclude_unset=True, by_alias=True)


def _new_rows(directory: str, data: Source) -> dict[str, Any]:
    """The source of rows as those of training, in a place of their own."""
    if data.table is not None:
        return _content(data) | {"table": "new_rows"}
    parts = Path(data.path or "").suffixes
    suffix = "".join(parts[-2:] if parts and parts[-1] in COMPRESSED else parts[-1:])
    return _content(data) | {"path": os.path.join(directory, f"new{suffix}")}
