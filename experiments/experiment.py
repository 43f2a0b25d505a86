"""What an experiment is: figures with the paper's beside, as a table, a picture and a finding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_auc.app.directory import Directory

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """What an experiment is run with.

    Parameters
    ----------
    repeats
        How often what is random is repeated.
    seed
        Of all that is random, >= 0.
    data
        Where the real data sets are; there for experiments that need them.
    spark
        A session; there for experiments that need it.
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
        What it is, and under which conditions: for the page.
    run
        Makes its figures; rows have the keys of ``columns``, None where there is no figure.
    columns
        By key, a column's heading and the format of its values.
    finding
        What the figures say beside the paper, in one sentence.
    picture
        Draws them.
    files
        Data sets, of which it needs at least one; none where it needs none.
    needs_spark
        Whether it needs a session.
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
        """The section of a page that has the picture ``name.png`` beside it."""
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
