"""Versions to install: those of constraints.txt, of a cell of the matrix, and what came of them.

``python tests/versions.py CELL`` prints the constraints of a cell, such as 3.11-4.1.4 (of Python
and Spark), 3.13-latest (the newest Spark) or 3.11-lowest (the lowest of all that pyproject.toml
allows). With ``--check`` it compares what is installed with them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[1]


def canonical(name: str) -> str:
    """A package's name in the one form that all spellings share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints() -> dict[str, str]:
    """Versions of constraints.txt by canonical name."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines)
    return {canonical(name): found for name, found in pairs}


def requirements() -> dict[str, list[str]]:
    """Requirements of pyproject.toml, by extra; those of no extra under ""."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def name_of(requirement: str) -> str:
    """The canonical name in a requirement."""
    return canonical(re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0])


def floors() -> dict[str, str]:
    """The lowest versions that pyproject.toml allows, by canonical name."""
    found = (r for listed in requirements().values() for r in listed)
    return {name_of(r): at[1] for r in found if (at := re.search(r">=\s*([\d.]+)", r))}


def of_cell(cell: str) -> dict[str, str]:
    """Versions that a cell of the matrix installs."""
    spark = cell.split("-")[1]
    if spark == "lowest":
        return floors()
    # Spark asks for one version of py4j.
    kept = {n: v for n, v in constraints().items() if n not in {"pyspark", "py4j"}}
    return kept if spark == "latest" else kept | {"pyspark": spark}


def others(expected: dict[str, str], parts: int) -> Iterator[str]:
    """Installed packages whose first parts of the version are not those expected."""
    for name, wanted in expected.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            continue
        length = min(parts, wanted.count(".") + 1)
        if found.split(".")[:length] != wanted.split(".")[:length]:
            yield f"found {name} {found}, expected {wanted}"


if __name__ == "__main__":
    cell, *check = sys.argv[1:]
    if check:
        sys.exit("\n".join(others(of_cell(cell), 3)) or 0)
    print("\n".join(f"{name}=={wanted}" for name, wanted in of_cell(cell).items()))
