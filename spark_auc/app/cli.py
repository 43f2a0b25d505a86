"""The command line: arguments of the jobs and commands.

Nothing that a job needs is imported before its name is known, so that help is there at once.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from spark_auc.app.known import COMMANDS, JOBS, doc_of, for_a_person, module_of, parts_of
from spark_auc.errors import ConfigError

_EPILOG = """\
Arguments beside the options override keys of the file, as dotted.key=value with values in YAML:
  train.training.regParam=0.01 spark.conf.spark.driver.memory=4g

They may stand anywhere but after --leave-out, which takes all names up to the next option.

Standard output ends with the result: a few lines at a terminal, and else, or by --json, one JSON
object on the last line.
Exit codes: 0 success, 2 configuration error, 3 data error, 4 not converged, 5 stopped by drift,
75 another job changed the same output or period first, 130 stopped by Ctrl-C, 1 other errors.
"""


class _Parser(argparse.ArgumentParser):
    # The job whose keys the help lists.
    job: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = super().parse_known_args(args, namespace)
        if hasattr(found, "overrides"):
            # argparse takes adjacent ones alone.
            found.overrides += [word for word in rest if not word.startswith("-")]
            rest = [word for word in rest if word.startswith("-")]
        return found, rest

    def format_help(self) -> str:
        text = super().format_help()
        if self.job is None:
            return text
        from spark_auc.app.config.described import key_lines
        from spark_auc.app.config.jobs import Configuration
        from spark_auc.app.config.sections import sections_of

        (section,) = sections_of(Configuration.model_fields[self.job].annotation)
        width = max(40, shutil.get_terminal_size().columns - 2)
        return f"{text}\nkeys of the section {self.job}:\n{key_lines(self.job, section, width)}"

    def error(self, message: str) -> NoReturn:
        from spark_auc.publication.redaction import redacted_text

        text = redacted_text(message)
        result = {"status": "error", "error": ConfigError.__name__, "message": text}
        if not for_a_person("--json" in sys.argv):
            print(json.dumps(result), flush=True)
        super().error(text)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from spark_auc.app.versions import versions

        print(versions(), end="")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run ``spark-auc JOB --config FILE [dotted.key=value ...]``, a raw table, or a command."""
    # At exit Python would look for garbage among all objects, which is slow and of no use.
    atexit.register(gc.freeze)
    parser = _Parser(
        "spark-auc",
        description="AUC maximization on Apache Spark.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print versions, and leave")
    names = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    given = sys.argv[1:] if argv is None else argv
    for name in (*JOBS, *COMMANDS):
        doc = doc_of(name)
        added = names.add_parser(
            name,
            help=doc.splitlines()[0],
            description=doc,
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name not in given:
            continue
        if name in JOBS:
            _add_arguments(name, added)
        else:
            module_of(name).add_arguments(added)
            _add_json(added)
    arguments = parser.parse_args(argv)
    if arguments.job in JOBS:
        sys.exit(_run_with(arguments.job, arguments))
    from spark_auc.app.running import reported

    def work(_: object) -> dict[str, Any]:
        result: dict[str, Any] = module_of(arguments.job).run(arguments)
        return result

    sys.exit(reported(arguments.job, work, as_json=arguments.json))


def script(job: str) -> NoReturn:
    """Run ``jobs/JOB.py --config FILE [dotted.key=value ...]``."""
    parser = _Parser(
        f"{job}.py",
        description=doc_of(job),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_arguments(job, parser)
    sys.exit(_run_with(job, parser.parse_args()))


def _run_with(job: str, arguments: argparse.Namespace) -> int:
    from spark_auc.app.config.arguments import options_of
    from spark_auc.app.running import run

    known = arguments.config, arguments.overrides, arguments.parts, options_of(arguments)
    return run(job, *known, as_json=arguments.json)


def _add_arguments(job: str, parser: _Parser) -> None:
    parser.job = job
    parser.set_defaults(parts=[])
    for part, text in parts_of(job).items():
        parser.add_argument(f"--{part}", dest="parts", action="append_const", const=part, help=text)
    parser.add_argument("--config", metavar="FILE", help="YAML configuration")
    from spark_auc.app.config.arguments import add_arguments

    add_arguments(job, parser)
    parser.add_argument("overrides", nargs="*", metavar="dotted.key=value")
    _add_json(parser)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the result as one JSON object at a terminal too, as everywhere else",
    )
