"""A Siamese network (Koch et al., 2015): features in which rows of one group are near."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spark_auc.core.types import Float, Keys
from spark_auc.errors import require

BATCH, STEPS, RATE = 128, 2000, 1e-3


def trained(X: Float, groups: Keys, width: int, seed: int) -> Callable[[Float], Float]:
    """Two layers, trained to tell pairs of one group from pairs of two.

    The features of a row are ``V relu(W x + b) + c``. The log-odds that a pair is of one group are
    linear in the absolute differences of its features. Half of the pairs of a step are of one
    group; both kinds are drawn at random.

    Parameters
    ----------
    X : (n, d)
        Rows.
    groups : (n,)
        The group of each row, in ascending order; at least two groups.
    width
        Number of features of both layers.
    seed
        Seed of the first weights and of the pairs.

    Returns
    -------
    function
        Maps rows ``(n, d)`` to features ``(n, width)``.

    Raises
    ------
    MissingPackageError
        jax or optax is not installed.
    """
    require("experiments", "jax", "optax")
    import jax
    import jax.numpy as jnp
    import optax

    scale = X.std()
    rows = jnp.asarray(X / scale, jnp.float32)
    _, first, count = (
        jnp.asarray(a) for a in np.unique(groups, return_index=True, return_counts=True)
    )
    optimizer = optax.adamw(RATE)
    key, *keys = jax.random.split(jax.random.key(seed), 3)
    weights: dict[str, Any] = {
        "W": jax.random.normal(keys[0], (X.shape[1], width)) * np.sqrt(2 / X.shape[1]),
        "b": jnp.zeros(width),
        "V": jax.random.normal(keys[1], (width, width)) / np.sqrt(width),
        "c": jnp.zeros(width),
        "decay": jnp.full(width, 1 / np.sqrt(width)),
        "offset": jnp.ones(()),
    }

    def features(weights: Any, rows: Any) -> Any:
        hidden = jax.nn.relu(rows @ weights["W"] + weights["b"])
        return hidden @ weights["V"] + weights["c"]

    def loss(weights: Any, left: Any, right: Any, same: Any) -> Any:
        distance = jnp.abs(features(weights, rows[left]) - features(weights, rows[right]))
        odds = weights["offset"] - distance @ weights["decay"]
        return optax.sigmoid_binary_cross_entropy(odds, same).mean()

    def step(number: Any, state: Any) -> Any:
        weights, memory = state
        draws = jax.random.split(jax.random.fold_in(key, number), 4)
        same = jnp.arange(BATCH) % 2
        group = jax.random.randint(draws[0], (BATCH,), 0, len(count))
        shift = jax.random.randint(draws[1], (BATCH,), 1, len(count))
        other = (group + shift * (1 - same)) % len(count)
        place = jax.random.randint(draws[2], (BATCH,), 0, count[group])
        # A row is no pair with itself.
        shift = jax.random.randint(draws[3], (BATCH,), 1, jnp.maximum(count[other], 2))
        left, right = first[group] + place, first[other] + (place + shift) % count[other]
        gradient = jax.grad(loss)(weights, left, right, same)
        updates, memory = optimizer.update(gradient, memory, weights)
        return optax.apply_updates(weights, updates), memory

    start = weights, optimizer.init(weights)
    ended, _ = jax.jit(lambda state: jax.lax.fori_loop(0, STEPS, step, state))(start)
    # This waits for training, which would otherwise run on while its time is taken.
    weights = {name: np.asarray(each) for name, each in ended.items()}
    return lambda other: np.asarray(
        features(weights, jnp.asarray(other / scale, jnp.float32)), float
    )
