"""The kinds of columns by their names in recipes and in plans."""

from __future__ import annotations

from typing import TypeVar

from spark_auc.features.kinds.hashed import Hashed
from spark_auc.features.kinds.leaves import Categories, Trees
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.named import Named
from spark_auc.features.kinds.numeric import Numeric
from spark_auc.features.kinds.parts_of_times import Hour, Weekday
from spark_auc.features.kinds.presence import Presence
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.kinds.words import Words

K = TypeVar("K", bound=Named)


def _by_name(*kinds: type[K]) -> dict[str, type[K]]:
    return {kind.__name__.lower(): kind for kind in kinds}


NUMERIC_KINDS: dict[str, type[Numeric]] = _by_name(Spline, Standard)
HASHED_KINDS: dict[str, type[Hashed]] = _by_name(Log, Tokens, Words, Presence, Hour, Weekday)
SPLIT_KINDS: dict[str, type[Trees | Categories]] = {"trees": Trees, "categories": Categories}
