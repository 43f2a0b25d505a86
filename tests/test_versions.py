"""Constraints hold for all extras together, and are what is installed."""

import re
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement
from packaging.version import Version

from tests.versions import ROOT, canonical, constraints, floors, name_of, others, requirements


def test_majors_installed_are_those_of_the_constraints():
    """A resolver that finds no common version goes back to ones years old, and says nothing."""
    assert list(others(constraints(), parts=1)) == []


def test_another_major_is_named():
    expected = {"numpy": "1.99", "no-such-package": "3.0", "pytest": version("pytest")}
    found = [f"found numpy {version('numpy')}, expected 1.99"]
    assert list(others(expected, parts=1)) == found


def test_lines_are_names_and_versions():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines == sorted(lines, key=str.lower)
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.]*", line)


def test_every_requirement_has_a_constraint_within_its_bounds():
    pinned = constraints()
    for extra, listed in requirements().items():
        for requirement in map(Requirement, listed):
            if (name := canonical(requirement.name)) != "spark-auc":
                assert name in pinned, f"{name} of the extra {extra!r}"
                assert pinned[name] in requirement.specifier


def test_constraints_are_closed_under_requirement():
    """No package comes unpinned with another, and no two pins exclude each other."""
    pinned = constraints()
    for name in pinned:
        try:
            listed = requires(name) or []
        except PackageNotFoundError:
            continue
        for needed in map(Requirement, listed):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonical(needed.name) in pinned, f"{name} needs {needed}"
                assert pinned[canonical(needed.name)] in needed.specifier, f"{name} needs {needed}"


def test_floors_are_below_the_constraints():
    pinned = constraints()
    assert {"numba", "numpy", "scipy", "pyspark", "pandas", "pyarrow", "matplotlib"} <= set(
        floors()
    )
    for name, lowest in floors().items():
        assert Version(lowest) <= Version(pinned[name])
    assert name_of("pyspark[connect]>=4.1,<5") == "pyspark"
