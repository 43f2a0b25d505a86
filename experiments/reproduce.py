"""Repeat the papers' experiments and publish the results next to the papers'.

Publishes ``reproduce.json`` with all results, ``reproduce.md`` with a table per experiment, and a
picture per experiment. The last line of standard output is one JSON object. Experiments on real
data need the files of the LIBSVM site, UCI's magic04.csv and the Criteo sample in one directory;
an experiment without its files is left out.
"""

from __future__ import annotations

import argparse
import difflib
import json
import logging
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from experiments import (
    adadsg_figure1,
    figure2,
    figure3,
    figure5,
    figure7,
    khalid_figure1,
    khalid_table2,
    khalid_table4,
    opauc_table2,
    solam_table3,
    table2,
    table3,
)
from experiments.experiment import Experiment, Settings
from spark_auc.app.config.sources import check_path
from spark_auc.app.report.pictures import png
from spark_auc.errors import ConfigError, SparkAUCError, require
from spark_auc.publication.directory import Directory
from spark_auc.publication.publish import check_free, publication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

EXPERIMENTS: dict[str, Experiment] = {
    "table2": table2.EXPERIMENT,
    "table3": table3.EXPERIMENT,
    "figure2": figure2.EXPERIMENT,
    "figure3": figure3.EXPERIMENT,
    "figure5": figure5.EXPERIMENT,
    "figure7": figure7.EXPERIMENT,
    "opauc_table2": opauc_table2.EXPERIMENT,
    "solam_table3": solam_table3.EXPERIMENT,
    "adadsg_figure1": adadsg_figure1.EXPERIMENT,
    "khalid_table2": khalid_table2.EXPERIMENT,
    "khalid_table4": khalid_table4.EXPERIMENT,
    "khalid_figure1": khalid_figure1.EXPERIMENT,
}


def run(argv: Sequence[str]) -> int:
    """Run the experiments that the arguments name; returns the exit code."""
    parser = argparse.ArgumentParser(
        "experiments.reproduce",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "experiments",
        nargs="*",
        metavar="EXPERIMENT",
        help=f"default: all of {', '.join(EXPERIMENTS)}",
    )
    parser.add_argument(
        "--repeats", type=int, default=20, help="repeats of random experiments (default 20)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of all random numbers (default 0)"
    )
    parser.add_argument("--data", help="directory of the real data sets")
    parser.add_argument("--output", default="output/reproduction", help="default %(default)s")
    arguments = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    try:
        result, code = {"status": "ok", **_published(arguments)}, 0
    except SparkAUCError as error:
        result = {"status": "error", "error": type(error).__name__, "message": str(error)}
        code = error.exit_code
    print(json.dumps(result, allow_nan=False), flush=True)
    return code


def _published(arguments: argparse.Namespace) -> dict[str, Any]:
    """Check the arguments, run the experiments and publish; returns the result to print."""
    for name in arguments.experiments:
        if name not in EXPERIMENTS:
            matches = difflib.get_close_matches(name, EXPERIMENTS, 1)
            remedy = f"did you mean {matches[0]!r}?" if matches else "name one or more of these"
            raise ConfigError(
                f"found the experiment {name!r}, expected one of {', '.join(EXPERIMENTS)}; {remedy}"
            )
    if arguments.repeats < 1 or arguments.seed < 0:
        raise ConfigError(
            f"found repeats = {arguments.repeats} and seed = {arguments.seed}, expected repeats of "
            "at least 1 and a seed of at least 0; set --repeats and --seed so"
        )
    check_path(arguments.data)
    require("report", "jinja2", "matplotlib")
    check_free(arguments.output, replace=True)
    chosen, left_out = _plan(arguments)
    if not chosen:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ConfigError(
            f"found no experiment that can run ({reasons}), expected at least one; set "
            "--data to a directory with these files, or name other experiments"
        )
    for name, reason in left_out.items():
        _log.warning("%s is left out: %s", name, reason)
    context: AbstractContextManager[SparkSession | None] = nullcontext()
    if any(EXPERIMENTS[name].needs_spark for name in chosen):
        from spark_auc.spark.data.session import session

        context = session("spark_auc experiments")
    with context as spark:
        data = Directory.of(arguments.data) if arguments.data else None
        return _run(
            arguments, chosen, left_out, Settings(arguments.repeats, arguments.seed, data, spark)
        )


def _run(
    arguments: argparse.Namespace, chosen: list[str], left_out: dict[str, str], settings: Settings
) -> dict[str, Any]:
    results: dict[str, dict[str, Any]] = {}
    pages = ["# The papers' experiments, repeated\n"]
    with publication(arguments.output, True, "reproduction") as version:
        for name in chosen:
            experiment, start = EXPERIMENTS[name], time.perf_counter()
            _log.info("%s: %s", name, experiment.title)
            rows = experiment.run(settings)
            seconds = round(time.perf_counter() - start, 1)
            finding = experiment.finding(rows)
            _log.info("%s took %.1f s. %s", name, seconds, finding)
            results[name] = {"finding": finding, "seconds": seconds, "rows": rows}
            version.write(f"{name}.png", png(experiment.picture(rows)))
            pages.append(experiment.markdown(name, rows))
        pages += [f"Left out: {name}: {reason}.\n" for name, reason in left_out.items()]
        pages.append(f"Repeats: {arguments.repeats}, seed: {arguments.seed}.\n")
        version.write("reproduce.md", "\n".join(pages).encode())
        inputs = {"arguments": vars(arguments), "leftOut": left_out}
        version.write_json("reproduce.json", inputs | {"experiments": results})
    summary = {
        name: {key: each[key] for key in ("finding", "seconds")} for name, each in results.items()
    }
    return {"page": f"{version.uri}/reproduce.md", "experiments": summary, "leftOut": left_out}


def _plan(arguments: argparse.Namespace) -> tuple[list[str], dict[str, str]]:
    """The experiments to run, and why each other requested experiment cannot run."""
    files_present = set(Directory.of(arguments.data).names()) if arguments.data else set()
    chosen, left_out = [], {}
    for name in dict.fromkeys(arguments.experiments or EXPERIMENTS):
        files = EXPERIMENTS[name].files
        if not files or files_present & set(files):
            chosen.append(name)
        else:
            where = f"in {arguments.data!r}" if arguments.data else "without --data"
            left_out[name] = f"none of {', '.join(files)} {where}"
    return chosen, left_out


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
