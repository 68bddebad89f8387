"""Joined: which things some chain of pairs holds together, each group called by its least member."""

import numpy as np

from headway.fabric.fabric import Column


def joined(count: int, one: Column, other: Column) -> Column:
    """[count]: for each node the least node that pairs join it to, itself where none does.

    >>> joined(5, np.array([4, 1]), np.array([3, 4])).tolist()
    [0, 1, 2, 1, 1]
    """
    least = np.arange(count, dtype=np.int32)
    while True:
        smaller = np.minimum(least[one], least[other])
        if (smaller == least[one]).all() and (smaller == least[other]).all():
            return least
        np.minimum.at(least, one, smaller)
        np.minimum.at(least, other, smaller)
