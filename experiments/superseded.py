"""An experiment of a paper: results next to the paper's, as table, picture and finding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_auc.publication.directory import Directory

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """Settings of a run of experiments.

    Parameters
    ----------
    repeats
        Number of repeats of random experiments.
    seed
        Seed of all random numbers, >= 0.
    data
        Directory of the real data sets; None if no experiment needs it.
    spark
        Spark session; None if no experiment needs it.
    """

    repeats: int
    seed: int
    data: Directory | None = None
    spark: SparkSession | None = None


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    Parameters
    ----------
    title, about
        Title and description of the protocol, for the page.
    run
        Computes the rows of the table, with the keys of ``columns``; missing values are None.
    columns
        Heading and format of each column, by key.
    finding
        Compares the results with the paper, in one sentence.
    picture
        Plots the results.
    files
        Data sets, at least one of which is required; empty if none is required.
    needs_spark
        Whether the experiment needs a Spark session.
    """

    title: str
    about: str
    run: Callable[[Settings], list[Row]]
    columns: Mapping[str, tuple[str, str]]
    finding: Callable[[Sequence[Row]], str]
    picture: Callable[[Sequence[Row]], Figure]
    files: Collection[str] = ()
    needs_spark: bool = False

    def markdown(self, name: str, rows: Sequence[Row]) -> str:
        """The experiment's section of the page, which shows the picture ``name.png``."""
        table = [
            [heading for heading, _ in self.columns.values()],
            ["---"] * len(self.columns),
            *([_text(row[key], form) for key, (_, form) in self.columns.items()] for row in rows),
        ]
        lines = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
        return (
            f"## {self.title}\n\n{self.about}\n\n**{self.finding(rows)}**\n\n"
            f"![{self.title}]({name}.png)\n\n{lines}\n"
        )


def _text(value: Any, form: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else format(value, form)
