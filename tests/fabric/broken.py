"""Fabrics for property tests: small shapes of which some links are dead."""

import numpy as np
from hypothesis import strategies as st

from headway.fabric.topologies import build
from tests.fabric.shapes import shapes


@st.composite
def broken(draw):
    """A small fabric, and which of its links work: all of them, most, few or none."""
    fabric = build(draw(shapes()))
    share = draw(st.sampled_from([1.0, 0.9, 0.5, 0.1, 0.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    return fabric, random.random(fabric.num_links) < share
