"""Range checks of the settings of learners and embeddings."""

from __future__ import annotations

import numpy as np

from spark_auc.errors import ConfigError


def check_above(name: str, value: float, lowest: float) -> None:
    """Raise `ConfigError` unless a setting is a finite number above ``lowest``."""
    if not lowest < value < np.inf:
        raise ConfigError(
            f"found {name} = {value}, expected a finite number above {lowest}; change the setting"
        )


def check_at_least(name: str, value: float, lowest: float) -> None:
    """Raise `ConfigError` unless a setting is a finite number of at least ``lowest``."""
    if not lowest <= value < np.inf:
        raise ConfigError(
            f"found {name} = {value}, expected a finite number of at least {lowest}; change the "
            "setting"
        )


def check_whole(name: str, value: int, lowest: int) -> None:
    """Raise `ConfigError` unless a setting is an integer from ``lowest`` to 2^63 - 1."""
    if not (lowest <= value < 2**63 and value == int(value)):
        raise ConfigError(
            f"found {name} = {value}, expected a whole number of at least {lowest}; change the "
            "setting"
        )
