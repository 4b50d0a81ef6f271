"""The one table of how far numbers may be from those of the originals in float64."""

from __future__ import annotations

# (engine, dtype) -> largest absolute difference. float32 leaves 2e-6 over sentences of 165 tokens
# in models of these sizes; the rest is room for other machines' order of summation.
ATOL = {
    ("plain", "float32"): 2e-5,
    ("fast", "float32"): 2e-5,
    # Half precision rounds values below 8 by at most 2**-9.
    ("plain", "float16"): 2e-3,
    ("fast", "float16"): 2e-3,
    ("plain", "float64"): 1e-12,
}

# Models of the published sizes sum over a thousand products and more.
ATOL_PUBLISHED = 5e-5

# The frozen float64 numbers and the oracle compute the same function in the same precision.
ATOL_ORACLE = 1e-12

# What two runs of ours may differ by that multiply matrices of other heights.
ATOL_ORDER = 2e-5
