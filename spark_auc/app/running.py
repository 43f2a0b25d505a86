"""Run a job or a command: configuration, session, result and exit code."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from os import fspath
from typing import Any

from spark_auc.app.config.arguments import content, listed
from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.load import configured, load
from spark_auc.app.config.reach import check_reach
from spark_auc.app.jobs.engines import Needs, opened, reason_for_spark
from spark_auc.app.known import EMBEDDED, for_a_person, module_of, parts_of
from spark_auc.app.told import told
from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, SparkAUCError
from spark_auc.publication.redaction import Redaction, redacted

_log = logging.getLogger(__name__)

# The exit code of a process that Ctrl-C ends.
_INTERRUPTED = 130


class _Formatter(logging.Formatter):
    """Log lines without secrets."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(super().format(record))


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
        "time" and "leave_out" for train; "model", "data" and "output" for score; "engine".
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

    return reported(job, configured_run, as_json=as_json, with_lines=not config)


def reported(
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
    except KeyboardInterrupt:
        code = _INTERRUPTED
        message = "stopped by the user"
        result |= {"status": "error", "error": "KeyboardInterrupt", "message": message}
        print(f"{name}: {message}", file=sys.stderr)
    except Exception as error:
        code = SparkAUCError.exit_code
        from spark_auc.spark.data.failures import first_line

        message = hide(first_line(error))
        result |= {"status": "error", "error": type(error).__name__, "message": message}
        print(hide(traceback.format_exc()), end="", file=sys.stderr)
    result["seconds"] = round(time.perf_counter() - start, 3)
    _log.info("%s: %s after %.1f s", name, result["status"], result["seconds"])
    sys.stderr.flush()
    person = for_a_person(as_json)
    try:
        if code == 0 and (person or with_lines):
            print(hide("\n".join(told(name, result))), flush=True)
        if not person:
            print(json.dumps(result, allow_nan=False), flush=True)
    except BrokenPipeError:
        # Who reads the output, such as head, has enough of it. Python would flush it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _configuration(
    job: str, config: str | None, overrides: Sequence[str], options: Mapping[str, Any]
) -> Configuration:
    if config is None:
        return configured(content(job, options), "the arguments", overrides)
    if others := [name for name in options if name != "engine"]:
        raise ConfigError(
            f"found --config and {listed(others)}, expected one or the other; leave out "
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
    for part in parts_of(job):
        if part not in parts:
            section = section.model_copy(update={part: None})
        elif getattr(section, part) is None:
            raise ConfigError(
                f"found --{part} without {job}.{part} in {path!r}, expected both; add {job}.{part}"
            )
    module = module_of(job)
    needs = module.needs(section) if job in EMBEDDED else Needs((), {f"the job {job}": True})
    reason = reason_for_spark(needs, file.spark, options.get("engine") or file.engine)
    module.check(section)
    if reason is not None:
        check_reach(section, file.spark)
    with opened(f"spark_auc {job}", file.spark, reason) as engine:
        if path is not None:
            result: dict[str, Any] = module.run(engine, section)
            return result
        with module_of("raw_table").completed(engine, section, options) as completed:
            return dict(module.run(engine, completed))


def _log_to_stderr(hide: Callable[[str], str]) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    for handler in logging.getLogger().handlers:
        # A program that calls `run` keeps the format of its own handlers.
        if type(handler) is logging.StreamHandler and handler.stream is sys.stderr:
            handler.setFormatter(_Formatter(hide))
    for name in ("py4j", "pyspark", "DataFrameQueryContextLogger", "matplotlib"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
