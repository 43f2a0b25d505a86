"""The steps of a Dockerfile, with what holds at each, and the files that COPY sees."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from dockerfile_parse import DockerfileParser


@dataclass(frozen=True)
class Step:
    """An instruction, and what holds when it runs.

    Parameters
    ----------
    instruction
        In capitals.
    value
        Its text, on one line.
    environment
        Variables of ENV and ARG up to here.
    directory
        The working directory.
    user
        Number or name of the user.
    """

    instruction: str
    value: str
    environment: dict[str, str]
    directory: str = "/"
    user: str = "0"

    @property
    def words(self) -> list[str]:
        """The words of the value, with variables replaced, or of its JSON form."""
        if self.value.startswith("["):
            return [str(word) for word in json.loads(self.value)]
        return shlex.split(Template(self.value).substitute(self.environment))


def steps(text: str) -> Iterator[Step]:
    """The steps of a Dockerfile of one stage.

    Raises
    ------
    ValueError
        At an instruction or a form of it that is not known here.
    """
    now = Step("", "", {})
    for found in DockerfileParser(fileobj=io.BytesIO(text.encode())).structure:
        name, value = found["instruction"], found["value"]
        if name == "COMMENT":
            continue
        if (name == "FROM") == bool(now.instruction):
            raise ValueError(f"found {name} {value}, expected one FROM, first; add its stages here")
        now = replace(now, instruction=name, value=value)
        if name in {"ARG", "ENV"}:
            pairs = [word.partition("=") for word in now.words]
            if not all(equals for _, equals, _ in pairs):
                raise ValueError(f"found {name} {value}, expected NAME=VALUE")
            added = {key: text for key, _, text in pairs}
            now = replace(now, environment=now.environment | added)
        elif name == "WORKDIR":
            now = replace(now, directory=str(Path(now.directory, *now.words)))
        elif name == "USER":
            (user,) = now.words
            now = replace(now, user=user)
        elif name == "COPY" and (value.startswith(("[", "--")) or len(now.words) < 2):
            raise ValueError(f"found COPY {value}, expected COPY SOURCE ... TARGET")
        elif name in {"ENTRYPOINT", "CMD"} and not value.startswith("["):
            raise ValueError(f"found {name} {value}, expected a list, which needs no shell")
        elif name not in {"FROM", "RUN", "COPY", "ENTRYPOINT", "CMD"}:
            raise ValueError(f"found {name} {value}, expected an instruction known here")
        yield now


def command(found: list[Step]) -> tuple[list[str], list[str]]:
    """The last ENTRYPOINT and CMD."""
    last = {step.instruction: step.words for step in found}
    return last["ENTRYPOINT"], last["CMD"]


def _pattern(line: str) -> re.Pattern[str]:
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", line.strip("/"))
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts) + "(?:/.*)?")


def copied(root: Path, ignore: str, source: str) -> list[Path]:
    """Files at or below a source of COPY that .dockerignore leaves.

    The last line that matches a path, or a directory above it, decides.

    Raises
    ------
    FileNotFoundError
        If there are none.
    """
    lines = [line for line in ignore.splitlines() if line and not line.startswith("#")]
    rules = [(_pattern(line.removeprefix("!")), line.startswith("!")) for line in lines]

    def kept(path: Path) -> bool:
        name = path.relative_to(root).as_posix()
        return next((keeps for rule, keeps in reversed(rules) if rule.fullmatch(name)), True)

    found = [p for p in [root / source, *(root / source).rglob("*")] if p.is_file() and kept(p)]
    if not found:
        raise FileNotFoundError(f"found no file {source!r}, expected it beside .dockerignore")
    return sorted(found)
