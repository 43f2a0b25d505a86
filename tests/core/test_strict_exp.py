"""Java's exponential function, against exact arithmetic and what Java returned."""

from decimal import Decimal, localcontext

import numpy as np

from spark_auc.core.strict_exp import strict_exp

# Bits that StrictMath.exp of Java 17 returned. NumPy's and glibc's differ for the first three.
JAVA = {
    "-0x1.d0cd7b8ce2f23p-37": "0x1.ffffffffe2f33p-1",
    "-0x1.95610d30d544ep-34": "0x1.ffffffff354f8p-1",
    "-0x1.1f8e8e9a675fbp-34": "0x1.ffffffff7038cp-1",
    "-0x1.f407dee65d1adp-3": "0x1.91154f3e8cec1p-1",
    "-0x1.1d93a6ba8e910p+1": "0x1.b7f75327b6e42p-4",
    "-0x1.01792ceee50ecp+2": "0x1.25410e78ee64cp-6",
    "-0x1.2a049537f2e94p+7": "0x1.0491d6a97735ap-215",
    "-0x1.6280000000000p+9": "0x0.8bfe55de02338p-1022",
    "-0x1.6840000000000p+9": "0x0.00005cf08fff0p-1022",
    "-0x1.7473333333333p+9": "0x0.0000000000001p-1022",
}


def test_the_bits_are_those_of_java():
    x = np.array([float.fromhex(text) for text in JAVA])
    assert [value.hex() for value in strict_exp(x).tolist()] == list(JAVA.values())


def test_within_one_unit_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=300) * scale for scale in (1e-12, 0.1, 1.0, 30.0, 200.0)])
    with localcontext() as context:
        context.prec = 60
        exact = [Decimal(value).exp() for value in x.tolist()]
        found = [Decimal(value) for value in strict_exp(x).tolist()]
        unit = [Decimal(value) for value in np.spacing(np.array([float(e) for e in exact]))]
        for one, other, bound in zip(found, exact, unit, strict=True):
            assert abs(one - other) < bound


def test_the_ends():
    x = np.array([0.0, -0.0, np.inf, -np.inf, 709.79, -745.2, -744.4, np.nan, 1e-320])
    found = strict_exp(x)
    np.testing.assert_array_equal(found[:6], [1.0, 1.0, np.inf, 0.0, np.inf, 0.0])
    assert 0 < found[6] < 1e-320
    assert np.isnan(found[7])
    assert found[8] == 1.0
