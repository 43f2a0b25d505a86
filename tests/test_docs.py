"""The code in docstrings, in the pages of the documentation, and in examples/ runs."""

import doctest
import re
import runpy
from pathlib import Path

import pytest

import spark_auc

ROOT = Path(__file__).parents[1]


def python_of(page):
    """The Python blocks of a page, as one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S))


@pytest.fixture(scope="module")
def rows(spark):
    names = {"spark": spark}
    exec(python_of("docs/reference/api.md"), names)
    kept = names["rows"].coalesce(1).cache()
    yield kept
    kept.unpersist()


@pytest.mark.parametrize("name", spark_auc.__all__)
def test_docstring_examples(name, spark, rows):
    finder = doctest.DocTestFinder(recurse=False)
    (found,) = finder.find(
        getattr(spark_auc, name), name, module=False, globs={"spark": spark, "rows": rows}
    )
    assert found.examples
    report = []
    failed, _ = doctest.DocTestRunner().run(found, out=report.append)
    assert not failed, "".join(report)


# What each prints, at the least.
PRINTED = {
    "choose_penalty": r"chosen",
    "probabilities": r"mean probability 0\.01\d+, purchases 0\.01\d+",
    "quickstart": r"converged\nAUC 0\.9\d+, 95% interval 0\.9",
    "raw_columns": r"difference 0\.\d+, 0\.",
    "stream_of_files": r'"batches": ',
}


def test_all_examples_are_known():
    assert sorted(PRINTED) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_examples(name, spark, capsys):
    runpy.run_path(str(ROOT / f"examples/{name}.py"), run_name="__main__")
    assert re.search(PRINTED[name], capsys.readouterr().out)
