"""Write the documentation's page of a run of the papers' experiments.

    python -m experiments.documented --results output/reproduction

writes verdicts, small pictures and the first table of each experiment of the run into
``docs/guides/reproduction.md`` and ``docs/images/papers``. Tables of curves are left to its pages.
"""

from __future__ import annotations

import argparse
import io
import json
import re
from pathlib import Path

from PIL import Image

from experiments.experiment import Limits, Record, Results
from experiments.page import limits_text, page, pictures
from experiments.reproduce import EXPERIMENTS
from spark_auc.app.report.pictures import png

_PAGE, _PICTURES = "guides/reproduction.md", "images/papers"
_WIDTH, _COLOURS = 1000, 32
_INTRODUCTION = """# The papers, repeated

Tables and figures of the papers whose methods are [here](papers.md), repeated on the data sets that
could be had, beside the figures that the papers print. Each claim is tested as its paper states it;
where it does not hold, the sentence says so. Quick runs leave many differences untold: with few
rows and repeats most comparisons tie. Every number was measured by one run:

{commands}

| command | does |
| --- | --- |
| `make reproduce QUICK=1` | runs all, in some 20 minutes on two cores |
| `make reproduce` | runs all within larger limits, in at most 4 hours |
| `make reproduce ARGS="--full"` | runs all without limits, for days |
| `make reproduce ARGS="mba_table3 --repeats 5"` | runs one of them |

An experiment publishes its page as it ends: all tables, also of curves, and `results.json` with
every measured value. A failure is a line of the index and ends the run with exit code 1; another
run goes on where the first stopped. `SPARK_AUC_DATA` names the directory of the data; sets that are
not there are named on each page.
"""


def documented(results: Path, docs: Path) -> str:
    """Write the page and its pictures; returns the page."""
    folder = docs / _PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    sections, lines, total, limits = [], [], 0.0, Limits()
    for name, experiment in EXPERIMENTS.items():
        stored = results / name / "results.json"
        if not stored.exists():
            continue
        facts = json.loads(stored.read_bytes())
        outcome = facts["outcome"]
        total += outcome["seconds"]
        cells = outcome["title"], outcome["status"], f"{outcome['seconds']:.0f}"
        if outcome["status"] != "ok":
            lines.append(f"| {' | '.join(cells)} |")
            continue
        limits = Limits(**facts["limits"])
        found = Results([Record(**record) for record in facts["records"]], facts["absent"])
        for key, figure in pictures(experiment, found).items():
            (folder / f"{name}-{key}.png").write_bytes(_smaller(png(figure)))
        text = page(
            *(experiment, found, limits, outcome["seconds"], f"../{_PICTURES}/{name}-"),
            tables=0 if experiment.x else 1,
        )
        sections.append(f"#{text.strip()}")
        anchor = re.sub(r"[^\w -]", "", text.splitlines()[0][2:].lower()).replace(" ", "-")
        lines.append(f"| [{cells[0]}](#{anchor}) | {' | '.join(cells[1:])} |")
    commands = f"{limits_text(limits, 1)} All took {total / 60:.0f} minutes of one CPU."
    index = ["| experiment | outcome | CPU seconds |", "| --- | --- | --- |", *lines]
    whole = "\n\n".join(
        [_INTRODUCTION.format(commands=commands).strip(), "\n".join(index), *sections]
    )
    (docs / _PAGE).write_text(f"{whole}\n")
    return whole


def _smaller(content: bytes) -> bytes:
    """A picture of few colours and at most some width, as PNG."""
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    picture.thumbnail((_WIDTH, 10 * _WIDTH))
    smaller = io.BytesIO()
    picture.quantize(_COLOURS).save(smaller, "PNG", optimize=True)
    return smaller.getvalue()


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="output of a run")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="default %(default)s")
    arguments = parser.parse_args()
    documented(arguments.results, arguments.docs)


if __name__ == "__main__":
    main()
