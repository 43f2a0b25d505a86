"""Tables of many columns: memory follows the rows that are there, and messages stay short."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.core.memory import ProcessMemory
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.pipeline import recipe_fit
from spark_auc.tables.arrow_table import ArrowTable

N, D = 60, 300
RNG = np.random.default_rng(0)
COLUMNS = {f"x{k}": RNG.normal(size=N) for k in range(D)}
ROWS = pa.table({"y": np.arange(N) % 3 == 0, **COLUMNS})


@dataclass(frozen=True)
class Watched(ProcessMemory):
    sizes: list[int] = field(default_factory=list)

    def check(self, state_bytes, what):
        self.sizes.append(state_bytes)


@pytest.mark.parametrize("kind", ["auto", "spline"])
def test_the_states_of_few_rows_are_taken_for_what_they_are(kind, monkeypatch):
    memory, states = Watched(), []
    table = ArrowTable(ROWS.schema, 1, ArrowTable.of(ROWS).read, memory=memory)
    plan = AutoPlan.of_schema(dict.fromkeys(COLUMNS, "float"), dict.fromkeys(COLUMNS, kind))
    whole = ArrowTable.fold

    def fold(self, *given, **named):
        found = whole(self, *given, **named)
        states.extend(len(state.to_bytes()) for state in found.values())
        return found

    monkeypatch.setattr(ArrowTable, "fold", fold)
    if kind == "auto":
        recipe_fit.chosen(table, plan, "y", None)
    else:
        recipe_fit.summarised(table, plan.widest)
    assert max(states) < max(memory.sizes) < 4 * max(states)


def test_messages_name_a_few_columns_only():
    constant = ROWS.set_column(0, "y", ROWS["y"])
    for k in range(D):
        constant = constant.set_column(k + 1, f"x{k}", pa.array(np.zeros(N)))
    plan = AutoPlan.of_schema(dict.fromkeys(COLUMNS, "float"))
    with pytest.raises(DataError, match="no column to use among 300: left out 'x0'") as found:
        recipe_fit.chosen(ArrowTable.of(constant), plan, "y", None)
    assert "x5" not in str(found.value)
    for names in ({"kinds": {"z": "spline"}}, {"without": ["z"]}):
        with pytest.raises(ConfigError, match="'x9'] and 290 more"):
            AutoPlan.of_schema(dict.fromkeys(COLUMNS, "float"), **names)
    with pytest.raises(ConfigError, match="'x8'] and 291 more"):
        ArrowTable.of(ROWS).select(["z"])
