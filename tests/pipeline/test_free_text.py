"""Which columns of text are free text."""

import numpy as np
import pandas as pd
import pytest

import spark_auc

N = 400
RNG = np.random.default_rng(3)
NAMES = np.array([f"name{k}" for k in range(90)])


TEXTS = {
    "user{0}@gmail.com": False,
    "https://shop.example/item/{0}": False,
    "ORD-2024-{0:06d}": False,
    "{1}.{2}.{3}.{4}": False,
    "+49 171 {0:07d}": False,
    "{0}": False,
    "{5} sent {6} and {7}, number {0}": True,
    "Mr. {5} {6} ({0})": True,
    "ОТЗЫВ {0}: {5} и {6}": True,
}


@pytest.mark.parametrize(("form", "is_text"), TEXTS.items())
def test_codes_are_left_out_and_sentences_are_read(form, is_text):
    values = [form.format(k, *RNG.integers(0, 256, 4), *RNG.choice(NAMES, 3)) for k in range(N)]
    frame = pd.DataFrame({"x": RNG.normal(size=N), "id": values, "y": RNG.random(N) < 0.4})
    recipe = spark_auc.train(frame, "y").model.recipe
    kinds = [column.kind for column in recipe.own_columns if column.name == "id"]
    assert kinds == (["words"] if is_text else [])


def test_the_words_of_few_positive_rows_are_not_used():
    values = [
        f"{name} sent a letter to {other} {k}"
        for k, (name, other) in enumerate(RNG.choice(NAMES, (N, 2)))
    ]
    frame = pd.DataFrame({"x": RNG.normal(size=N), "id": values, "y": np.arange(N) % 5 == 0})
    recipe = spark_auc.train(frame, "y").model.recipe
    assert [column.name for column in recipe.own_columns] == ["x"]
    named = spark_auc.train(frame, "y", features={"words": ["id"]}).model.recipe
    assert {column.kind for column in named.own_columns} == {"spline", "words"}


def test_texts_with_a_frequent_answer_are_read_by_their_words():
    rng = np.random.default_rng(0)
    known = np.array(["late", "broken", "kind", "slow", "great", "lost", "fast", "rude", "warm"])
    drawn = rng.integers(0, known.size, (1500, 5))
    texts = np.array([" ".join(known[own]) for own in drawn], dtype=object)
    texts[rng.random(1500) < 0.25] = "no comment"
    y = rng.random(1500) < np.where([("broken" in text) for text in texts], 0.7, 0.3)
    trained = spark_auc.train(pd.DataFrame({"answer": texts, "y": y}), "y")
    assert [column.kind for column in trained.model.recipe.columns] == ["words"]
