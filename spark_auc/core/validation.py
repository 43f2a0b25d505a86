"""Ranges of the settings that learners and embeddings are made with."""

from __future__ import annotations

import numpy as np

from spark_auc.errors import ConfigError


def check_above(name: str, value: float, lowest: float) -> None:
    """Refuse a setting that is not a finite number above ``lowest``."""
    if not lowest < value < np.inf:
        raise ConfigError(
            f"found {name} = {value}, expected a finite number above {lowest}; set one"
        )


def check_at_least(name: str, value: float, lowest: float) -> None:
    """Refuse a setting that is not a finite number from ``lowest`` on."""
    if not lowest <= value < np.inf:
        raise ConfigError(
            f"found {name} = {value}, expected a finite number of at least {lowest}; set one"
        )


def check_whole(name: str, value: int, lowest: int) -> None:
    """Refuse a setting that is not a whole number of 63 bits from ``lowest`` on."""
    if not (lowest <= value < 2**63 and value == int(value)):
        raise ConfigError(
            f"found {name} = {value}, expected a whole number of at least {lowest}; set one"
        )
