"""Repeat the papers' experiments and publish the results next to the papers'.

Each experiment publishes its directory as it ends, whole or not at all: ``page.md``, pictures and
``results.json``; ``index.md`` lists them all. An experiment that fails is a line of the index and
an exit code of 1 at the end; the others still run. Another run with the same settings keeps the
pages whose declaration, code and data are the same, and so goes on where the first stopped. The
last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from threadpoolctl import threadpool_limits

from experiments import (
    adadsg,
    mba,
    mba_benchmarks,
    mba_clicks,
    nonlinear,
    one_shot,
    opauc,
    partial_auc,
    solam,
)
from experiments.experiment import AbsentError, Experiment, Limits
from experiments.page import page, pictures, verdict
from spark_auc.app.config.sources import check_path
from spark_auc.app.report.pictures import png
from spark_auc.errors import ConfigError, SparkAUCError, require

_log = logging.getLogger(__name__)

# The experiments of a paper are the dictionary `EXPERIMENTS` of its module.
MODULES: tuple[ModuleType, ...] = (
    mba,
    mba_benchmarks,
    mba_clicks,
    one_shot,
    opauc,
    solam,
    adadsg,
    nonlinear,
    partial_auc,
)
EXPERIMENTS: dict[str, Experiment] = {
    name: experiment for module in MODULES for name, experiment in module.EXPERIMENTS.items()
}
# Of quick runs, 20 minutes in all; of usual ones, at most 4 hours; and of those without limits.
QUICK = Limits(repeats=10, rows=1_200, work=2e7, seconds=20)
USUAL = Limits(rows=10_000, work=1e9, seconds=400)
FULL = Limits()
_ROOT = Path(__file__).parents[1]


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
    sizes = parser.add_mutually_exclusive_group()
    for name, limits in (("--quick", QUICK), ("--full", FULL)):
        sizes.add_argument(
            name, dest="limits", action="store_const", const=limits, default=USUAL, help=str(limits)
        )
    parser.add_argument("--repeats", type=int, help="repeats at most, beside the papers' own")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default 0)")
    parser.add_argument(
        "--data",
        default=os.environ.get("SPARK_AUC_DATA"),
        help="directory of the real data sets (default: SPARK_AUC_DATA)",
    )
    parser.add_argument("--output", default="output/reproduction", help="default %(default)s")
    arguments = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    # An experiment trains thousands of times.
    logging.getLogger("spark_auc").setLevel(logging.ERROR)
    try:
        chosen, limits = _checked(arguments)
    except SparkAUCError as error:
        result = {"status": "error", "error": type(error).__name__, "message": str(error)}
        print(json.dumps(result), flush=True)
        return error.exit_code
    output = Path(arguments.output)
    outcomes: dict[str, dict[str, Any]] = {}
    # Of the code that is loaded, not of a file that changes while others run.
    keys = {name: _key(name, limits, arguments) for name in chosen}
    # More threads of BLAS make no run of these sizes faster, and other seconds.
    with threadpool_limits(1):
        for name in chosen:
            outcomes[name] = _outcome(name, keys[name], arguments, limits, output)
            _write_index(output)
    failed = [name for name, outcome in outcomes.items() if outcome["status"] == "failed"]
    status = "failed" if failed else "ok"
    print(json.dumps({"status": status, "experiments": outcomes}, allow_nan=False), flush=True)
    return 1 if failed else 0


def _checked(arguments: argparse.Namespace) -> tuple[list[str], Limits]:
    for name in arguments.experiments:
        if name not in EXPERIMENTS:
            matches = difflib.get_close_matches(name, EXPERIMENTS, 1)
            remedy = f"did you mean {matches[0]!r}?" if matches else "name one or more of these"
            raise ConfigError(
                f"found the experiment {name!r}, expected one of {', '.join(EXPERIMENTS)}; {remedy}"
            )
    limits: Limits = arguments.limits
    if arguments.repeats is not None:
        limits = replace(limits, repeats=arguments.repeats)
    if (limits.repeats or 1) < 1 or arguments.seed < 0 or arguments.repeats == 0:
        raise ConfigError(
            f"found repeats = {limits.repeats} and seed = {arguments.seed}, expected repeats of "
            "at least 1 and a seed of at least 0; set --repeats and --seed so"
        )
    check_path(arguments.data)
    require("report", "matplotlib")
    return list(dict.fromkeys(arguments.experiments or EXPERIMENTS)), limits


def _outcome(
    name: str, key: str, arguments: argparse.Namespace, limits: Limits, output: Path
) -> dict[str, Any]:
    """Run an experiment or keep its page; returns what the index says of it."""
    experiment, own = EXPERIMENTS[name], output / name
    stored = _stored(own)
    if stored.get("key") == key and stored["status"] == "ok":
        _log.info("%s is kept", name)
        return stored
    start = time.process_time()
    outcome: dict[str, Any] = {"key": key, "title": f"{experiment.paper}, {experiment.what}"}
    files: dict[str, bytes] = {}
    records: dict[str, Any] = {}
    try:
        data = Path(arguments.data) if arguments.data else None
        results = experiment.run(data, limits, arguments.seed)
        seconds = time.process_time() - start
        outcome |= {"status": "ok", "verdict": verdict(experiment, results)}
        files = {f"{key}.png": png(each) for key, each in pictures(experiment, results).items()}
        files["page.md"] = page(experiment, results, limits, seconds).encode()
        records = {"limits": asdict(limits), **experiment.stored(results)}
    except AbsentError as error:
        outcome |= {"status": "left out", "verdict": str(error)}
    except Exception as error:
        _log.exception("%s failed", name)
        outcome |= {"status": "failed", "verdict": f"{type(error).__name__}: {error}"}
    outcome["seconds"] = round(time.process_time() - start, 1)
    files["results.json"] = json.dumps({"outcome": outcome} | records).encode()
    _publish(own, files)
    _log.info("%s: %s", name, outcome)
    return outcome


def _publish(own: Path, files: Mapping[str, bytes]) -> None:
    """Write a directory whole or not at all."""
    new = own.with_name(f"{own.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for name, content in files.items():
        (new / name).write_bytes(content)
    shutil.rmtree(own, ignore_errors=True)
    new.rename(own)


def _stored(own: Path) -> dict[str, Any]:
    """The outcome that an earlier run published; empty if none did."""
    try:
        outcome: dict[str, Any] = json.loads((own / "results.json").read_bytes())["outcome"]
    except FileNotFoundError:
        return {}
    return outcome


def _write_index(output: Path) -> None:
    """The index of all experiments that were run into a directory, by this run or before."""
    lines = ["| experiment | outcome | CPU seconds | verdict |", "| --- | --- | --- | --- |"]
    for name in EXPERIMENTS:
        if outcome := _stored(output / name):
            title = f"[{outcome['title']}]({name}/page.md)"
            cells = title if outcome["status"] == "ok" else outcome["title"], outcome["status"]
            lines.append(f"| {' | '.join(cells)} | {outcome['seconds']} | {outcome['verdict']} |")
    text = "# The papers' experiments, repeated\n\n" + "\n".join(lines) + "\n"
    new = output / "index.md.new"
    new.write_text(text)
    new.replace(output / "index.md")


def _key(name: str, limits: Limits, arguments: argparse.Namespace) -> str:
    """A hash of all that the results of an experiment depend on, but the computer."""
    (module,) = (each for each in MODULES if name in each.EXPERIMENTS)
    sources = sorted(_imported(Path(str(module.__file__))) | set(_ROOT.glob("spark_auc/**/*.py")))
    files = Path(arguments.data).rglob("*") if arguments.data else ()
    data = sorted((str(each), each.stat().st_size) for each in files)
    facts = [name, asdict(limits), arguments.seed, data]
    found = hashlib.sha256(json.dumps(facts).encode())
    for path in sources:
        found.update(path.read_bytes())
    return found.hexdigest()


def _imported(module: Path) -> set[Path]:
    """A file of this package and those that it imports from it."""
    found, waiting = set[Path](), [module, Path(__file__).with_name("page.py")]
    while waiting:
        if (path := waiting.pop()) not in found:
            found.add(path)
            names = re.findall(r"^from experiments\.([\w.]+) import", path.read_text(), re.M)
            waiting += [_ROOT / "experiments" / f"{each.replace('.', '/')}.py" for each in names]
    return found


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
