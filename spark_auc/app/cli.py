"""Run a job or a command: arguments, configuration, session, exit code."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from os import fspath
from typing import Any, NoReturn

from spark_auc.app.config.arguments import add_arguments, content, listed, options_of
from spark_auc.app.config.described import key_lines
from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.load import configured, load
from spark_auc.app.config.reach import check_reach
from spark_auc.app.config.sections import sections_of
from spark_auc.app.told import told
from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, SparkAUCError
from spark_auc.publication.redaction import Redaction, redacted, redacted_text

_log = logging.getLogger(__name__)

JOBS = ("prepare", "train", "evaluate", "score", "opauc", "adadsg", "retrain")
# What is no job of Spark: modules of `spark_auc.app.commands`, with `add_arguments` and `run`.
COMMANDS = ("init", "export")

# Parts of a job's section that need a command line flag, and the help text of the flag.
_PARTS = {
    "opauc": {"stream": "learn a stream as configured in opauc.stream, instead of one batch"},
    "retrain": {"delete": "delete the rows of retrain.delete, instead of processing periods"},
}

_EPILOG = """\
Arguments after the options override keys of the file, as dotted.key=value with values in YAML:
  train.training.regParam=0.01 spark.conf.spark.driver.memory=4g

Put them before --leave-out, which takes all names after it.

Standard output ends with the result: a few lines at a terminal, and else, or by --json, one JSON
object on the last line.
Exit codes: 0 success, 2 configuration error, 3 data error, 4 not converged, 5 stopped by drift,
75 another job changed the same output or period first, 1 other errors.
"""


class _Parser(argparse.ArgumentParser):
    # The job whose keys the help lists.
    job: str | None = None

    def format_help(self) -> str:
        text = super().format_help()
        if self.job is None:
            return text
        (section,) = sections_of(Configuration.model_fields[self.job].annotation)
        width = max(40, shutil.get_terminal_size().columns - 2)
        return f"{text}\nkeys of the section {self.job}:\n{key_lines(self.job, section, width)}"

    def error(self, message: str) -> NoReturn:
        text = redacted_text(message)
        result = {"status": "error", "error": ConfigError.__name__, "message": text}
        if not _for_a_person("--json" in sys.argv):
            print(json.dumps(result), flush=True)
        super().error(text)


class _Formatter(logging.Formatter):
    """Log lines without secrets."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(super().format(record))


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from spark_auc.app.versions import versions

        print(versions(), end="")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run ``spark-auc JOB --config FILE [dotted.key=value ...]``, a raw table, or a command."""
    parser = _Parser(
        "spark-auc",
        description="AUC maximization on Apache Spark.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print versions, and leave")
    names = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for name in (*JOBS, *COMMANDS):
        doc = _module(name).__doc__ or ""
        added = names.add_parser(
            name,
            help=doc.splitlines()[0],
            description=doc,
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in JOBS:
            _add_arguments(name, added)
        else:
            _module(name).add_arguments(added)
            _add_json(added)
    arguments = parser.parse_args(argv)
    if arguments.job in JOBS:
        sys.exit(_run_with(arguments.job, arguments))

    def work(_: Callable[[Any], Redaction]) -> dict[str, Any]:
        result: dict[str, Any] = _module(arguments.job).run(arguments)
        return result

    sys.exit(_reported(arguments.job, work, as_json=arguments.json))


def script(job: str) -> NoReturn:
    """Run ``jobs/JOB.py --config FILE [dotted.key=value ...]``."""
    parser = _Parser(
        f"{job}.py",
        description=_module(job).__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_arguments(job, parser)
    sys.exit(_run_with(job, parser.parse_args()))


def _run_with(job: str, arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    known = arguments.config, arguments.overrides, arguments.parts, options
    return run(job, *known, as_json=arguments.json)


def run(
    job: str,
    config: AnyPath | None = None,
    overrides: Sequence[str] = (),
    parts: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Run one job, and print its result.

    It is one JSON object on the last line of standard output. At a terminal, a few lines for a
    person take its place.

    Parameters
    ----------
    job
        Name of the job.
    config
        Path of the configuration file; None with options.
    overrides
        Overrides of the form "dotted.key=value".
    parts
        Flags that are set, such as "stream". Parts of the job's section whose flag is not set are
        ignored.
    options
        Options that name a raw table, instead of the file: "data", "label", "output", "positive",
        "time" and "leave_out" for train; "model", "data" and "output" for score.
    as_json
        Whether to print JSON at a terminal, too.

    Returns
    -------
    int
        The exit code.
    """
    options = options or {}
    config = None if config is None else fspath(config)

    def configured_run(hiding: Callable[[Any], Redaction]) -> dict[str, Any]:
        file = _configuration(job, config, overrides, options)
        hiding(file.model_dump())
        _log.info("job %s: configuration %s", job, config or "of the arguments")
        return dict(redacted(_run(job, file, config, parts, options)))

    return _reported(job, configured_run, as_json=as_json, with_lines=not config)


def _reported(
    name: str,
    work: Callable[[Callable[[Any], Redaction]], dict[str, Any]],
    *,
    as_json: bool,
    with_lines: bool = False,
) -> int:
    """Do the work of a job or a command, print its result, and return the exit code.

    Parameters
    ----------
    name
        The job or the command.
    work
        Takes a function that hides the secrets of a configuration from then on.
    as_json
        Whether to print JSON at a terminal.
    with_lines
        Whether to print the lines for a person before the JSON.
    """
    hide = Redaction()

    def hiding(content: Any) -> Redaction:
        nonlocal hide
        hide = Redaction(content)
        _log_to_stderr(hide)
        return hide

    _log_to_stderr(hide)
    start = time.perf_counter()
    result: dict[str, Any] = {"job": name}
    code = 0
    try:
        result |= {"status": "ok", **redacted(work(hiding))}
    except SparkAUCError as error:
        code = error.exit_code
        message = hide(str(error))
        result |= redacted(dict(error.result))
        result |= {"status": "error", "error": type(error).__name__, "message": message}
        print(f"{name}: {type(error).__name__}: {message}", file=sys.stderr)
    except Exception as error:
        code = SparkAUCError.exit_code
        from spark_auc.spark.data.failures import first_line

        message = hide(first_line(error))
        result |= {"status": "error", "error": type(error).__name__, "message": message}
        print(hide(traceback.format_exc()), end="", file=sys.stderr)
    result["seconds"] = round(time.perf_counter() - start, 3)
    _log.info("%s: %s after %.1f s", name, result["status"], result["seconds"])
    sys.stderr.flush()
    person = _for_a_person(as_json)
    if code == 0 and (person or with_lines):
        print(hide("\n".join(told(name, result))), flush=True)
    if not person:
        print(json.dumps(result, allow_nan=False), flush=True)
    return code


def _for_a_person(as_json: bool) -> bool:
    """Whether a person reads standard output, and wants no JSON."""
    return sys.stdout.isatty() and not as_json


def _configuration(
    job: str, config: str | None, overrides: Sequence[str], options: Mapping[str, Any]
) -> Configuration:
    if config is None:
        return configured(content(job, options), "the arguments", overrides)
    if options:
        raise ConfigError(
            f"found --config and {listed(options)}, expected one or the other; leave out "
            "--config, or put the values into its file"
        )
    return load(config, overrides)


def _run(
    job: str,
    file: Configuration,
    path: str | None,
    parts: Sequence[str],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    section = getattr(file, job)
    if section is None:
        raise ConfigError(f"found no section {job!r} in {path!r}, expected one; add it")
    for part in _PARTS.get(job, ()):
        if part not in parts:
            section = section.model_copy(update={part: None})
        elif getattr(section, part) is None:
            raise ConfigError(
                f"found --{part} without {job}.{part} in {path!r}, expected both; add {job}.{part}"
            )
    module = _module(job)
    module.check(section)
    check_reach(section, file.spark)
    # A late import: errors in the configuration do not wait for Spark.
    from spark_auc.spark.data.failures import translated
    from spark_auc.spark.data.session import session

    with (
        session(f"spark_auc {job}", file.spark.settings(), remote=file.spark.remote) as spark,
        translated(),
    ):
        if path is None:
            with _module("raw_table").resolved(spark, section, options) as completed:
                result: dict[str, Any] = module.run(spark, completed)
        else:
            result = module.run(spark, section)
    return result


def _module(name: str) -> Any:
    room = "commands" if name in COMMANDS else "jobs"
    return importlib.import_module(f"spark_auc.app.{room}.{name}")


def _add_arguments(job: str, parser: _Parser) -> None:
    parser.job = job
    parser.set_defaults(parts=[])
    for part, text in _PARTS.get(job, {}).items():
        parser.add_argument(f"--{part}", dest="parts", action="append_const", const=part, help=text)
    parser.add_argument("--config", metavar="FILE", help="YAML configuration")
    add_arguments(job, parser)
    parser.add_argument("overrides", nargs="*", metavar="dotted.key=value")
    _add_json(parser)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the result as one JSON object at a terminal too, as everywhere else",
    )


def _log_to_stderr(hide: Callable[[str], str]) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    for handler in logging.getLogger().handlers:
        # A program that calls `run` keeps the format of its own handlers.
        if type(handler) is logging.StreamHandler and handler.stream is sys.stderr:
            handler.setFormatter(_Formatter(hide))
    for name in ("py4j", "pyspark", "DataFrameQueryContextLogger", "matplotlib"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
