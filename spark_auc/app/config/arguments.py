"""The sections of ``train`` and ``score`` from arguments that name a raw table.

`content` makes what a YAML file would say. What only the rows can tell, such as the types of
columns in text, follows from `spark_auc.app.jobs.raw_table` when Spark runs.
"""

from __future__ import annotations

import argparse
import codecs
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from spark_auc.app.known import EMBEDDED
from spark_auc.errors import ConfigError
from spark_auc.publication.versions import resolve
from spark_auc.storage.file_systems import COMPRESSED, is_local

# Format of files by suffix; those of text may be compressed.
_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
# First bytes of files that are no text, what they are, and the remedy.
_BINARY = {
    b"PAR1": ("Parquet", "rename it to end with .parquet"),
    b"PK\x03\x04": ("a zip file or a workbook", "save its rows as CSV"),
    b"\x1f\x8b": ("gzip", "rename it to end with .gz"),
    b"\xff\xfe": ("UTF-16", "convert it to UTF-8"),
    b"\xfe\xff": ("UTF-16", "convert it to UTF-8"),
}
_BEGINNING = 1 << 16
_NEEDED = {"train": ("data", "label", "output"), "score": ("model", "data", "output")}
_OPTIONS = (
    *("model", "data", "label", "output"),
    *("positive", "time", "leave_out", "budget", "engine"),
)


def add_arguments(job: str, parser: argparse.ArgumentParser) -> None:
    """Add the options that name a raw table to the parser of a job."""
    if job in EMBEDDED:
        parser.add_argument(
            "--engine",
            choices=["local", "spark"],
            help="default: this process where it can read the rows, else Spark",
        )
    if job not in ("train", "score"):
        return
    add = parser.add_argument_group("a raw table instead of --config").add_argument
    add("--data", metavar="FILE_OR_TABLE", help="CSV, TSV, JSON or Parquet, or a table")
    add("--output", metavar="DIR", help="directory of the results")
    if job == "score":
        add("--model", metavar="DIR", help="directory that train published")
        return
    add_table_options(add)
    add(
        "--budget",
        metavar="SECONDS",
        type=float,
        help="counted work for the choice of a model, about seconds of one processor; default: "
        "no limit",
    )


def add_table_options(add: Callable[..., argparse.Action]) -> None:
    """Add the options about the columns of a raw table that a ranker is trained on.

    Parameters
    ----------
    add
        ``add_argument`` of a parser or of a group of it.
    """
    add("--label", metavar="COLUMN", help="column of the two classes")
    add("--positive", metavar="VALUE", help="label of the positive class; default: 1 of 0/1, -1/+1")
    add("--time", metavar="COLUMN", help="hold out the latest rows by this column; default: a hash")
    add(
        "--leave-out",
        metavar="COLUMN",
        nargs="+",
        action="extend",
        help="columns that the ranker must not use",
    )


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of a raw table that are set, by name."""
    given = {name: getattr(arguments, name, None) for name in _OPTIONS}
    return {name: value for name, value in given.items() if value not in (None, "", [])}


def content(job: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a configuration file with the section of a job.

    Parameters
    ----------
    job
        Name of the job.
    options
        Options of the command line by name, as `options_of` returns them.

    Raises
    ------
    ConfigError
        An option is missing, or the data are of no format that can be read.
    """
    needed = _NEEDED.get(job, ())
    missing = [name for name in needed if name not in options]
    if missing or not needed:
        raw = f" or {listed(needed)}" if needed else ""
        absent = f" and no {listed(missing)}" if options else ""
        raise ConfigError(f"found no --config{absent}, expected --config FILE{raw}; add it")
    section: dict[str, Any] = {
        "data": source(options["data"]),
        "output": {"path": options["output"]},
    }
    if job == "score":
        return {job: section | {"model": options["model"]}}
    section["columns"] = {"label": options["label"]}
    if "positive" in options:
        section["columns"]["positiveLabel"] = options["positive"]
    section["features"] = {}
    if "budget" in options:
        section["budget"] = options["budget"]
    if "leave_out" in options:
        section["features"]["leaveOut"] = options["leave_out"]
    section["holdout"] = {"by": "key", "train": 0.8}
    return {job: section}


def listed(names: Iterable[str]) -> str:
    """Names of options as the command line has them."""
    return ", ".join("--" + name.replace("_", "-") for name in names)


def source(data: str) -> dict[str, Any]:
    """The keys of a source by the suffix of a path; without a suffix a table.

    Raises
    ------
    ConfigError
        The suffix is unknown, or the beginning of a local file is no text.
    """
    local = is_local(data)
    form = _format(data)
    if form is None and local and os.path.isdir(data):
        # A directory of files, or the output of a job, whose files are Parquet.
        names = sorted(name for *_, files in os.walk(data) for name in files)
        inside = (_format(name) for name in names if name[0] not in "._")
        form = next((f for f in inside if f), "parquet")
    if form is None:
        if not local or os.sep in data or os.path.exists(data):
            raise ConfigError(
                f"found data {data!r}, expected a path that ends with "
                f"{', '.join(_FORMATS)}, a directory of such files, or the name of a table; rename "
                "or convert the file"
            )
        return {"table": data}
    options: dict[str, Any] = {}
    beginning = _beginning(data) if local and form != "parquet" else b""
    if form == "csv":
        options = {"header": True, "escape": '"', "mode": "FAILFAST"}
        options |= {"ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": True}
        if local and not os.path.isdir(data):
            # One file has one header. Spark gives columns without a name, or of one name, others.
            options["enforceSchema"] = True
        if ".tsv" in os.path.basename(data).lower():
            options["sep"] = "\t"
    elif form == "json":
        options = {"mode": "FAILFAST"} | ({"multiLine": True} if beginning[:1] == b"[" else {})
    return {"format": form, "path": data, "options": options}


def _format(path: str) -> str | None:
    name = path.lower().rstrip("/")
    stem, suffix = os.path.splitext(name)
    if suffix in COMPRESSED:
        suffix = os.path.splitext(stem)[1]
    return _FORMATS.get(suffix)


def _beginning(path: str) -> bytes:
    """The first bytes of a file of text, without spaces; of a directory, none.

    Raises
    ------
    ConfigError
        The file is empty, or no text.
    """
    file = resolve(path).removeprefix("file://")
    if not os.path.isfile(file) or file.lower().endswith((*COMPRESSED,)):
        return b""
    with open(file, "rb") as opened:
        first = opened.read(_BEGINNING)
    if not first.strip():
        raise ConfigError(f"found no text in {path!r}, expected a header and rows; check the file")
    kind = next((kind for mark, kind in _BINARY.items() if first.startswith(mark)), None)
    if kind is None and b"\0" in first:
        kind = ("bytes of value 0", "save its rows as CSV or Parquet")
    if kind is None:
        try:
            # The last character may be cut.
            codecs.getincrementaldecoder("utf-8")().decode(first, len(first) < _BEGINNING)
        except UnicodeDecodeError as error:
            kind = (f"byte {first[error.start]:#x} at {error.start}", "convert it to UTF-8")
    if kind:
        raise ConfigError(f"found {kind[0]} in {path!r}, expected text in UTF-8; {kind[1]}")
    return first.strip()
