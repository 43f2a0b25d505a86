"""Run experiments of the papers again and publish the figures beside theirs.

Section ``reproduce`` of the configuration: experiments (all unless named), repeats, seed, data
(directory of the real data sets; experiments that need others are left out), output. Publishes
``reproduce.json`` with all figures, ``reproduce.md`` with a table per experiment, and a picture
of each.
"""

from __future__ import annotations

import difflib
import logging
import time
from typing import TYPE_CHECKING, Any

from spark_auc.app.config import Reproduce
from spark_auc.app.directory import Directory
from spark_auc.app.pictures import check_matplotlib, png
from spark_auc.app.publish import check_free, publication
from spark_auc.app.read import check_path
from spark_auc.app.reproduction import (
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
from spark_auc.app.reproduction.experiment import Experiment, Settings
from spark_auc.errors import ConfigError

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


def check(config: Reproduce) -> None:
    """What can be known to be wrong before Spark starts; `ConfigError`."""
    for name in config.experiments or ():
        if name not in EXPERIMENTS:
            near = difflib.get_close_matches(name, EXPERIMENTS, 1)
            remedy = f"did you mean {near[0]!r}?" if near else "name some of these"
            raise ConfigError(
                f"found the experiment {name!r}, expected some of {', '.join(EXPERIMENTS)}; "
                f"{remedy}"
            )
    check_path(config.data)
    check_matplotlib()
    check_free(config.output.path, config.output.replace)
    chosen, left_out = _plan(config)
    if not chosen:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ConfigError(
            f"found no experiment that can run ({reasons}), expected one; set reproduce.data to a "
            "directory with these files, or name others"
        )


def needs_spark(config: Reproduce) -> bool:
    """Whether an experiment needs a session."""
    return any(EXPERIMENTS[name].needs_spark for name in _plan(config)[0])


def run(spark: SparkSession | None, config: Reproduce) -> dict[str, Any]:
    """Run the job; the result for standard output."""
    chosen, left_out = _plan(config)
    for name, reason in left_out.items():
        _log.warning("%s is left out: %s", name, reason)
    data = Directory.of(config.data) if config.data else None
    settings = Settings(config.repeats, config.seed, data, spark)
    found: dict[str, dict[str, Any]] = {}
    pages = ["# The papers' experiments, run again\n"]
    with publication(config.output.path, config.output.replace, "reproduction") as version:
        for name in chosen:
            experiment, start = EXPERIMENTS[name], time.perf_counter()
            _log.info("%s: %s", name, experiment.title)
            rows = experiment.run(settings)
            seconds = round(time.perf_counter() - start, 1)
            finding = experiment.finding(rows)
            _log.info("%s took %.1f s. %s", name, seconds, finding)
            found[name] = {"finding": finding, "seconds": seconds, "rows": rows}
            version.write(f"{name}.png", png(experiment.picture(rows)))
            pages.append(experiment.markdown(name, rows))
        pages += [f"Left out: {name}: {reason}.\n" for name, reason in left_out.items()]
        pages.append(f"Repeats: {config.repeats}, seed: {config.seed}.\n")
        version.write("reproduce.md", "\n".join(pages).encode())
        result = {"config": config.model_dump(mode="json"), "leftOut": left_out}
        version.write_json("reproduce.json", result | {"experiments": found})
    summary = {
        name: {key: each[key] for key in ("finding", "seconds")} for name, each in found.items()
    }
    return {"page": f"{version.uri}/reproduce.md", "experiments": summary, "leftOut": left_out}


def _plan(config: Reproduce) -> tuple[list[str], dict[str, str]]:
    """The experiments to run, and why the others asked for cannot be run."""
    there = set(Directory.of(config.data).names()) if config.data else set()
    chosen, left_out = [], {}
    for name in dict.fromkeys(config.experiments or EXPERIMENTS):
        files = EXPERIMENTS[name].files
        if not files or there & set(files):
            chosen.append(name)
        else:
            where = f"in {config.data!r}" if config.data else "without reproduce.data"
            left_out[name] = f"none of {', '.join(files)} {where}"
    return chosen, left_out
