"""Docstrings of the public names: their sections, and parameters as in the signature."""

import pytest
from numpydoc.validate import validate

import spark_auc

# Sections, their order, and parameters against the signature. Ruff checks the form of the text.
CHECKED = {"GL01", "GL05", "GL06", "GL07", "GL08", "SS01", "PR01", "PR02", "PR03", "PR07", "RT03"}


@pytest.mark.parametrize("name", spark_auc.__all__)
def test_sections_and_parameters(name):
    errors = validate(f"spark_auc.{name}")["errors"]
    found = {code: said for code, said in errors if code in CHECKED}
    assert not found
