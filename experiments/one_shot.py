"""MBA, Figure 6: characters told apart by rankers that ten drawings of each have trained."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA  # type: ignore[import-untyped]

from experiments.experiment import (
    AbsentError,
    Case,
    Experiment,
    Measure,
    Point,
    Request,
    Results,
    Verdict,
)
from experiments.few_rows import chosen, new_scores
from experiments.page import panels
from experiments.siamese import BATCH, STEPS, trained
from spark_auc.app.report.pictures import GUIDE
from spark_auc.core.batch import Batch
from spark_auc.core.types import Bool, Float, Int
from spark_auc.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "Omniglot"
FILES = tuple(f"omniglot/images_background_small{k}.zip" for k in (1, 2))
SIDE, DRAWINGS, FEATURES, PAIRS, GAINS = 105, 20, 512, 2500, 15
_LINES = 3
_LINEAR, _NETWORK = "PCA", "Siamese network"


class Drawings(NamedTuple):
    """Black and white images, in the order of alphabets, characters and drawers.

    Parameters
    ----------
    X : (n, SIDE^2)
        1 for ink.
    character, alphabet : (n,)
        Numbers from 0 on.
    """

    X: sparse.csr_matrix
    character: Int
    alphabet: Int


@lru_cache(maxsize=1)
def drawings(directory: Path | None) -> Drawings:
    """The drawings of all alphabets of the archives; those that are in both count once.

    Raises
    ------
    AbsentError
        An archive is not in the directory.
    DataError
        An archive has other images than `DRAWINGS` squares of `SIDE` pixels for each character.
    """
    from matplotlib.image import imread

    if directory is None or not all((directory / file).is_file() for file in FILES):
        where = f"in {str(directory)!r}" if directory else "without a directory of data"
        raise AbsentError(
            f"found no {' and '.join(FILES)} {where}, expected Omniglot's small background sets; "
            "put the archives there, or name the directory by --data"
        )
    images = {}
    for file in FILES:
        with zipfile.ZipFile(directory / file) as archive:
            for path in archive.namelist():
                if path.endswith(".png"):
                    image = imread(io.BytesIO(archive.read(path)), format="png")
                    images[tuple(path.split("/")[1:])] = sparse.csr_matrix(1 - image.reshape(1, -1))
    names = sorted(images)
    characters, count = np.unique([name[:2] for name in names], axis=0, return_counts=True)
    widths = {image.shape[1] for image in images.values()}
    if widths != {SIDE**2} or set(count) != {DRAWINGS}:
        raise DataError(
            f"found {sorted(set(count.tolist()))} drawings of a character, of "
            f"{sorted(widths)} pixels, expected {DRAWINGS} of {SIDE**2}; put the distributed "
            "archives into the directory of --data"
        )
    _, alphabet = np.unique(characters[:, 0], return_inverse=True)
    X = sparse.vstack([images[name] for name in names], "csr", np.float32)
    return Drawings(X, np.repeat(np.arange(count.size), count), np.repeat(alphabet, count))


def split(request: Request) -> tuple[Batch, Batch]:
    """Images of a random half of the alphabets, and of the others.

    The groups are characters, the segments alphabets. A random half of the drawings of a character
    are positive: those that train rankers. In an alphabet these are of the same drawers.
    """
    X, character, alphabet = drawings(request.directory)
    rng = np.random.default_rng(request.seed)
    order = rng.permutation(alphabet[-1] + 1)
    trains = np.isin(np.arange(DRAWINGS), rng.permutation(DRAWINGS)[: DRAWINGS // 2])
    rows = Batch(
        *(X, np.tile(trains, character[-1] + 1)),
        group=character.astype(np.uint64),
        segment=alphabet,
    )
    fits = np.isin(alphabet, order[: order.size // 2])
    return rows.take(np.flatnonzero(fits)), rows.take(np.flatnonzero(~fits))


# Both methods begin with the same features.
@lru_cache(maxsize=1)
def _features(case: Case) -> tuple[Float, Float]:
    """Principal components of training images, and of test images by the same directions."""
    count = min(FEATURES, *(n - 1 for n in case.train.X.shape))
    analysis = PCA(count, svd_solver="arpack", random_state=case.seed).fit(case.train.X)
    train, test = (analysis.transform(rows.X).astype(float) for rows in (case.train, case.test))
    return train, test


def pairs(case: Case) -> Int:
    """Numbers ``(P, 2)`` of two test characters, drawn without replacement."""
    characters = case.test.y.size // DRAWINGS
    every = np.stack(np.triu_indices(characters, 1), axis=1)
    drawn = np.random.default_rng(case.seed).permutation(len(every))[:PAIRS]
    return every[drawn]


def aucs(features: Float, trains: Bool, pairs: Int) -> Float:
    """Test AUC in percent ``(P,)`` of pairs of characters, with penalties by leave-one-out.

    Parameters
    ----------
    features : (n, d)
        Features of drawings, in the order of characters.
    trains : (n,)
        Whether a drawing trains rankers; the others are test drawings.
    pairs : (P, 2)
        Numbers of characters.
    """
    centred = features - features.mean(axis=0)
    products = centred @ centred.T
    by_use = np.argsort(~trains.reshape(-1, DRAWINGS), axis=1, kind="stable")
    by_use += np.arange(len(by_use))[:, None] * DRAWINGS
    half = DRAWINGS // 2
    rows = np.concatenate(
        [
            by_use[pairs][:, :, part].reshape(len(pairs), -1)
            for part in (slice(half), slice(half, None))
        ],
        axis=1,
    )
    gram = products[rows[:, :, None], rows[:, None, :]]
    penalties = chosen(gram[:, :DRAWINGS, :DRAWINGS])
    scores = new_scores(gram, DRAWINGS, penalties)
    difference = scores[:, :half, None] - scores[:, None, half:]
    return np.asarray(50 * (1 + np.sign(difference)).mean(axis=(1, 2)))


def _point(case: Case, features: Float) -> dict[str, Any]:
    compared, start = pairs(case), time.perf_counter()
    found = aucs(features, case.test.y, compared)
    seconds = time.perf_counter() - start
    assert case.test.segment is not None
    alphabets = case.test.segment[::DRAWINGS][compared]
    same = alphabets[:, 0] == alphabets[:, 1]
    return {
        "auc": found.mean(),
        "same": found[same].mean(),
        "different": found[~same].mean(),
        "seconds": seconds,
        "aucs": found.tolist(),
    }


def _linear(case: Case) -> Iterator[Point]:
    yield Point(_point(case, _features(case)[1]))


def _network(case: Case) -> Iterator[Point]:
    train, test = _features(case)
    start = time.perf_counter()
    mapped = trained(train, case.train.groups(), FEATURES, case.seed)
    seconds = time.perf_counter() - start
    values = _point(case, mapped(test))
    gains = np.subtract(values["aucs"], aucs(test, case.test.y, pairs(case)))
    best = np.argsort(-gains, kind="stable")[:GAINS]
    shown = case.test.take(pairs(case)[best].ravel() * DRAWINGS).X
    yield Point(
        values
        | {
            "training": seconds,
            "gain": gains.max(),
            "gains": gains[best].tolist(),
            "images": [np.packbits(row.toarray() > 0).tobytes().hex() for row in shown],
        }
    )


def _verdict(results: Results) -> Verdict:
    def text(measure: str) -> str:
        network, linear = (results.mean(NAME, each, measure) for each in (_NETWORK, _LINEAR))
        return f"{network:.2f} against {linear:.2f}"

    linear, network = (results.mean(NAME, method, "auc") for method in (_LINEAR, _NETWORK))
    gain, training = (results.mean(NAME, _NETWORK, each) for each in ("gain", "training"))
    seconds = results.mean(NAME, _LINEAR, "seconds")
    return Verdict(
        network > linear,
        f"{text('auc')} (the paper: 95.55 against 95.27), {text('same')} for pairs of one "
        f"alphabet, and {gain:.0f} points more for the pair that gains most (the paper: about 30); "
        f"the network took {training:.1f} seconds to train, all pairs {seconds:.1f} to rank",
    )


def _grids(results: Results) -> Figure:
    """The AUC of all pairs of the first repeat, in an order that both panels have."""
    with panels(2, 4) as (figure, axes):
        for panel, method in zip(axes, (_LINEAR, _NETWORK), strict=False):
            values = results.values(NAME, method, "aucs")[0]
            side = int(np.sqrt(values.size))
            grid = values[: side**2].reshape(side, side)
            image = panel.imshow(grid, vmin=50, vmax=100, cmap="viridis")
            panel.set(title=f"{method}: mean {values.mean():.2f}", xticks=[], yticks=[])
            panel.grid(visible=False)
        figure.colorbar(image, ax=list(axes[:2]), label="test AUC (%)")
    return figure


def _most_gained(results: Results) -> Figure:
    """Drawings of the pairs of the first repeat whose AUC the network raises most."""
    values = next(r.values for r in results.records if r.method == _NETWORK)
    pixels = np.frombuffer(bytes.fromhex("".join(values["images"])), np.uint8)
    ink = np.unpackbits(pixels.reshape(2 * GAINS, -1), axis=1, count=SIDE**2)
    lines = ink.reshape(_LINES, -1, SIDE, SIDE).transpose(0, 2, 1, 3).reshape(_LINES * SIDE, -1)
    with panels(1, 7.5) as (figure, (panel, *_)):
        panel.imshow(1 - lines, cmap="gray")
        panel.set(xticks=[], yticks=[])
        for k, gain in enumerate(values["gains"]):
            line, pair = divmod(k, GAINS // _LINES)
            panel.text((2 * pair + 1) * SIDE, line * SIDE, f"{gain:+.1f}", ha="center", va="top")
            panel.axvline(2 * pair * SIDE, color=GUIDE, lw=1)
            panel.axhline(line * SIDE, color=GUIDE, lw=1)
    return figure


FIGURE6 = Experiment(
    paper="MBA",
    what="Figure 6",
    title="one-shot recognition of characters",
    about=(
        f"Omniglot's two small background sets: 8 alphabets of 242 characters, {DRAWINGS} drawings "
        "each, of which four random alphabets train and four test (the paper: 50 alphabets, 30 and "
        f"20), in five splits (the paper prints no number). {FEATURES} principal components of the "
        "training images are the linear features, and the input of a network of two layers of "
        f"{FEATURES}, trained to tell pairs of drawings of one character from pairs of two "
        f"({STEPS:,d} steps of Adam on {BATCH} pairs). For each of {PAIRS:,d} random pairs of test "
        "characters, ten drawings of each train a ridge on all pairs of drawings, and ten test it. "
        "The penalty has the least loss of the scores of each training drawing by the ranker of "
        "the others, which follow in closed form. Same and different: pairs of characters of one "
        "alphabet and of two. Seconds: all rankers and scores of all pairs; training: of the "
        "network. The pictures show the first repeat: the AUC of each pair, and the pairs that "
        "gain most."
    ),
    claim="features of a Siamese network rank better than linear ones",
    verdict=_verdict,
    sets={NAME: split},
    methods={_LINEAR: _linear, _NETWORK: _network},
    own=(_NETWORK,),
    measures={
        "auc": Measure(
            "mean AUC (%)", paper={NAME: {_LINEAR: (95.27, None), _NETWORK: (95.55, None)}}
        ),
        "same": Measure("mean AUC (%) of pairs of one alphabet"),
        "different": Measure("mean AUC (%) of pairs of two alphabets"),
        "seconds": Measure("seconds of all pairs"),
        "training": Measure("seconds of training", ".1f"),
        "gain": Measure("greatest gain of a pair, in points", ".1f"),
    },
    repeats=5,
    # Rows are whole characters, of which none is left out.
    row_scale=10,
    pictures={"grids": _grids, "gains": _most_gained},
)

EXPERIMENTS = {"mba_figure6": FIGURE6}
