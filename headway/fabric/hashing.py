"""Hashes of flows as switches take them: a CRC, of which a switch's seed selects the polynomial and the bits."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headway.fabric.fabric import Column, Fabric, Flags

Words = NDArray[np.uint32]

# CRC-32 polynomials in use: IEEE 802.3, Castagnoli, MEF, Koopman, AIXM, BASE91-D, AUTOSAR, Koopman. All of them have
# high terms: under one like XFER's 0xAF the last words would leave the upper bits as they are.
_POLYNOMIALS = (
    *(0x04C11DB7, 0x1EDC6F41, 0x741B8CD7, 0x32583499),
    *(0x814141AB, 0xA833982B, 0xF4ACFB13, 0x32C00699),
)
_ROCE = (np.uint32(4791), np.uint32(17))  # the words after the source port: destination port of RoCEv2, UDP
_BITS, _HALF, _LOW = 32, 16, 2**16 - 1
_SHIFT = np.uint32(_HALF)


@dataclass(frozen=True, slots=True, eq=False)
class Hashing:
    """How each node of a fabric hashes. [N] each: which polynomial, and by how many bits its result is turned.

    Equal seeds give equal choices at every tier, so that flows polarise: those that meet at an Agg have already chosen
    alike. A CRC is linear, so another initial value would shift all flows of a switch together and separate nothing.
    """

    polynomial: Column
    turn: Column


def hashing(fabric: Fabric, seed: int, *, shared: bool = False) -> Hashing:
    """What the seeds of all switches and cards select, drawn from `seed`; `shared`: one for all of them."""
    drawn = np.random.default_rng(seed).integers(len(_POLYNOMIALS) * _BITS, size=fabric.num_nodes, dtype=np.int32)
    polynomial, turn = np.divmod(np.full_like(drawn, drawn[0]) if shared else drawn, np.int32(_BITS))
    return Hashing(polynomial, turn)


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """What switches see of F flows. [F] each: addresses of the cards (their numbers), and the UDP source port.

    In the source port lies all of RoCE's entropy: the rest of the five is the same for all.
    """

    source: Column
    destination: Column
    port: Column

    def __len__(self) -> int:
        return len(self.port)

    def of(self, chosen: Flags | NDArray[np.int64]) -> "Flows":
        """Some of them."""
        return Flows(self.source[chosen], self.destination[chosen], self.port[chosen])


def choose(hashing: Hashing, nodes: Column, flows: Flows, ways: Column) -> Column:
    """[F]: which of its `ways` (at least one) each flow takes at its node: equal-cost multipath by 5-tuple."""
    table, start = _table(), hashing.polynomial[nodes] << _HALF
    words = [word for address in (flows.source, flows.destination) for word in (address >> _HALF, address & _LOW)]
    code: Words = np.zeros(len(flows), np.uint32)
    for word in (*words, flows.port, *_ROCE):
        code = table[start + ((code >> _SHIFT) ^ np.asarray(word, np.uint32))] ^ (code << _SHIFT)
    turn = hashing.turn[nodes].astype(np.uint32)
    turned = (code << turn) | (code >> (np.uint32(_BITS) - turn) % np.uint32(_BITS))
    found: Column = (turned % ways.astype(np.uint32)).astype(np.int32)
    return found


@lru_cache(maxsize=1)
def _table() -> Words:
    """[polynomials · 2¹⁶]: the CRC of each 16-bit word, one polynomial after another."""
    code = np.tile(np.arange(2**_HALF, dtype=np.uint32) << _HALF, (len(_POLYNOMIALS), 1))
    polynomials = np.array(_POLYNOMIALS, np.uint32)[:, None]
    for _ in range(_HALF):
        code = (code << 1) ^ np.where(code >> (_BITS - 1), polynomials, np.uint32(0))
    return code.ravel()
