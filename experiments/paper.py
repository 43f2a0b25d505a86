"""Results that the papers print; AUC in percent.

MBA: Gultekin, Saha, Ratnaparkhi, Paisley, "MBA: Mini-Batch AUC Optimization".
OPAUC: Gao, Jin, Zhu, Zhou, "One-Pass AUC Optimization".
SOLAM: Ying, Wen, Lyu, "Stochastic Online AUC Maximization".
Khalid: Khalid, Ray, Chitsaz, "Scalable Nonlinear AUC Maximization Methods".
"""

from __future__ import annotations

# Table II: by number of components, the Neyman-Pearson AUC and, by sample ratio, that of MBA-l2.
TABLE2 = {
    1: (92.13, {0.01: 87.43, 0.1: 91.44, 1.0: 91.88}),
    2: (83.71, {0.01: 80.15, 0.1: 83.15, 1.0: 83.47}),
    3: (80.22, {0.01: 76.39, 0.1: 79.52, 1.0: 79.93}),
}

# Table III: MBA-l2 and its standard deviation, by the names of the files.
TABLE3 = {
    "a1a": (88.98, 0.14),
    "a9a": (89.97, 0.01),
    "german.numer_scale": (80.34, 0.80),
    "ijcnn1": (90.53, 0.05),
    "madelon": (62.39, 0.44),
    "mushrooms": (100.00, 0.00),
    "svmguide3": (81.16, 0.80),
    "usps.binary": (95.89, 0.04),
    "w1a": (92.28, 0.23),
}

# Figure 2, according to its text: the number of pairs with which MBA ranks as well as with all 10^6
# pairs, and the least speedup over these.
FIGURE2_PAIRS, FIGURE2_SPEEDUP = 5000, 50

# Figure 7, according to its text: lead of MBA over the best other algorithm on Criteo, in points.
FIGURE7_LEAD = 0.54

# OPAUC, Table 2: AUC and standard deviation by the names of the files and algorithms.
OPAUC_TABLE2 = {
    "diabetes_scale": {
        "OPAUC": (83.09, 3.50),
        "OAMseq": (82.64, 3.67),
        "OAMgra": (82.62, 3.38),
        "Uni-Exp": (82.15, 3.09),
    },
    "fourclass_scale": {
        "OPAUC": (83.10, 2.51),
        "OAMseq": (83.06, 2.47),
        "OAMgra": (82.95, 2.51),
        "Uni-Exp": (82.81, 3.05),
    },
    "german.numer_scale": {
        "OPAUC": (79.78, 3.47),
        "OAMseq": (77.47, 4.11),
        "OAMgra": (77.23, 3.58),
        "Uni-Exp": (79.08, 3.67),
    },
    "splice_scale": {
        "OPAUC": (92.32, 0.99),
        "OAMseq": (85.94, 1.94),
        "OAMgra": (88.64, 1.66),
        "Uni-Exp": (89.31, 2.13),
    },
    "usps.binary": {
        "OPAUC": (96.20, 0.40),
        "OAMseq": (93.10, 1.59),
        "OAMgra": (93.48, 1.22),
        "Uni-Exp": (95.38, 0.45),
    },
    "a9a": {
        "OPAUC": (90.02, 0.47),
        "OAMseq": (84.20, 1.74),
        "OAMgra": (85.71, 1.73),
        "Uni-Exp": (90.05, 0.24),
    },
    "w1a": {
        "OPAUC": (96.33, 0.35),
        "OAMseq": (93.04, 0.74),
        "OAMgra": (94.18, 0.70),
        "Uni-Exp": (76.93, 9.86),
    },
    "ijcnn1": {
        "OPAUC": (92.69, 0.21),
        "OAMseq": (92.09, 0.79),
        "OAMgra": (91.00, 0.92),
        "Uni-Exp": (92.64, 0.35),
    },
}

# SOLAM, Table 3: AUC and standard deviation of SOLAM; the other columns repeat OPAUC, Table 2.
SOLAM_TABLE3 = {
    "diabetes_scale": (82.53, 3.14),
    "fourclass_scale": (82.26, 2.40),
    "german.numer_scale": (78.82, 2.43),
    "splice_scale": (92.53, 0.97),
    "usps.binary": (97.66, 0.32),
    "a9a": (90.01, 0.42),
    "ijcnn1": (92.15, 0.45),
}

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
