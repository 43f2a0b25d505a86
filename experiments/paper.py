"""Results that Khalid, Ray, Chitsaz, "Scalable Nonlinear AUC Maximization Methods", print."""

from __future__ import annotations

# Khalid, Tables 2 and 3: AUC and seconds of training, by the names of the files and methods.
KHALID_TABLE2 = {
    "usps.binary": {
        "RBF-RankSVM (subsample)": (98.54, 0.83),
        "Linear RankSVM": (90.27, 1.42),
        "RFAUC": (97.42, 6.77),
        "NBAUC": (99.24, 27.68),
    },
    "magic04.csv": {
        "RBF-RankSVM (subsample)": (91.34, 3.71),
        "Linear RankSVM": (84.47, 0.08),
        "RFAUC": (92.83, 21.51),
        "NBAUC": (93.06, 25.46),
    },
    "ijcnn1": {
        "RBF-RankSVM (subsample)": (99.35, 282.0),
        "Linear RankSVM": (91.56, 0.57),
        "RFAUC": (98.86, 80.17),
        "NBAUC": (99.57, 88.87),
    },
}

# Khalid, Table 4: AUC and seconds of learning, for the set that is available.
KHALID_TABLE4 = {
    "ijcnn1": {"NSAUC": (99.69, 4.80), "NSOLAM": (98.86, 6.88), "NOAM": (98.16, 6.24)},
}
