"""Raw columns to sparse rows by a recipe, on one thread.

Prints one JSON object per step, with nanoseconds a row: the least of some repeats.

hash        39 columns of made-up tokens, 13 of them short integers as text, to indices
rows        the same to CSR rows of unit length: hashed, sorted, added and divided
watched     the same, and counts of missing values and of tokens that are new
numbers     13 splines of 12 knots and 26 columns of tokens, to CSR rows of unit length
crosses     10 columns of tokens with all 45 pairs, to CSR rows
fit         knots of 13 columns of numbers, 6 of them of more values than are kept
auto        the state of the automatic choice of 39 columns of made-up tokens
distinct    the same of one column of text that differs between rows
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from benchmarks.measuring import seconds
from spark_auc.features.crosses import Crosses
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.murmur import prefix_of
from spark_auc.features.raw_columns import Columns, Numbers, Text, read_only, validity_of
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.features.recipe_fit import Planned, RecipePlan
from spark_auc.features.seen import Seen
from spark_auc.features.tokens import Slots, hash_text
from spark_auc.features.watched import Watched

BATCH = 10_000
INTEGERS = [f"I{k}" for k in range(1, 14)]
TOKENS = [f"C{k}" for k in range(1, 27)]


def text(values: np.ndarray) -> Text:
    """A column of ASCII text of any lengths."""
    lengths = np.char.str_len(values)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    return Text.of_offsets(offsets, np.frombuffer("".join(values.tolist()).encode(), np.uint8))


def batches(rows: int) -> list[Columns]:
    """Rows like those of click logs: integers as text, and tokens of eight digits."""
    rng = np.random.default_rng(0)
    made: list[Columns] = []
    for _ in range(0, rows, BATCH):
        columns = {name: text(rng.zipf(1.3, BATCH).clip(0, 10**6).astype(str)) for name in INTEGERS}
        for name in TOKENS:
            hashes = rng.zipf(1.2, BATCH).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            columns[name] = text(np.array([f"{h:08x}" for h in (hashes >> np.uint64(32)).tolist()]))
        made.append(columns)
    return made


def numeric(rows: int) -> list[Columns]:
    """Rows of numbers, most of which are 0 or distinct."""
    rng = np.random.default_rng(1)
    made: list[Columns] = []
    for _ in range(0, rows, BATCH):
        columns: dict[str, Numbers] = {}
        for k, name in enumerate(INTEGERS):
            values = rng.lognormal(0, 2, BATCH) * (rng.random(BATCH) < 0.5)
            columns[name] = Numbers(values if k < 6 else np.floor(values))
        made.append(columns)
    return made


def hashed(made: list[Columns], dimension: int) -> None:
    out, none = np.empty(BATCH, np.int32), np.empty(0, np.uint32)
    for columns in made:
        for name, column in columns.items():
            arrays = (*map(read_only, column[:3]), validity_of(column))
            hash_text(prefix_of(f"{name}="), *arrays, 0, True, Slots(out, none, 0, dimension))


def mapped(recipe: Recipe, made: list[Columns]) -> None:
    for columns in made:
        recipe.transform(columns)


def identifiers(rows: int) -> list[Columns]:
    """Rows of different text."""
    words = np.char.add("user-", np.arange(rows).astype(str))
    return [{"id": text(part)} for part in np.split(words, range(BATCH, rows, BATCH))]


def folded(plan: AutoPlan, made: list[Columns]) -> None:
    positive = np.random.default_rng(2).random(BATCH) < 0.25
    plan.fold((columns, positive) for columns in made)


def counted(watched: Watched, made: list[Columns]) -> None:
    for columns in made:
        watched.transform(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dimension", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    dimension = arguments.dimension
    clicks, reals = batches(arguments.rows), numeric(arguments.rows)
    both = [a | b for a, b in zip(clicks, reals, strict=True)]
    tokens = tuple(Tokens(name, "text") for name in (*INTEGERS, *TOKENS))
    plan = RecipePlan(
        (
            *(Planned(name, "float", "spline") for name in INTEGERS),
            *(Planned(name, "text", "tokens") for name in TOKENS),
        ),
        dimension=dimension,
    )
    splines = plan.fitted(plan.fold(both[:2]))
    few = Recipe(hashed=tokens[-10:], dimension=dimension, crosses=Crosses(), unit=False)
    auto = AutoPlan.of_schema(dict.fromkeys([*INTEGERS, *TOKENS], "text"), dimension=dimension)
    unlike, one = identifiers(len(clicks) * BATCH), AutoPlan.of_schema({"id": "text"})
    whole = Recipe(hashed=tokens, dimension=dimension)
    watched = Watched(whole, Seen.of(whole, whole.transform(clicks[0])))
    steps = {
        "hash": lambda: hashed(clicks, dimension),
        "rows": lambda: mapped(whole, clicks),
        "watched": lambda: counted(watched, clicks),
        "numbers": lambda: mapped(splines, both),
        "crosses": lambda: mapped(few, clicks),
        "fit": lambda: plan.fold(both),
        "auto": lambda: folded(auto, clicks),
        "distinct": lambda: folded(one, unlike),
    }
    for name, run in steps.items():
        run()
        taken, _ = seconds(run, arguments.repeats)
        rows = len(clicks) * BATCH
        print(json.dumps({"step": name, "rows": rows, "ns a row": round(1e9 * taken / rows)}))


if __name__ == "__main__":
    main()
