"""How many random inputs a test takes."""

import os

from hypothesis import HealthCheck, settings

SHARE = float(os.environ.get("SPARK_AUC_FUZZ_SHARE", "0.02"))


def inputs(count):
    """Settings of a test that takes ``count`` inputs in ``make fuzz``, a share of them in CI."""
    return settings(
        max_examples=max(1, round(SHARE * count)),
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
