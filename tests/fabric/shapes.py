"""Shapes for property tests: up to three of each thing, on switches with ports enough."""

from hypothesis import strategies as st

from headway.fabric.shape import Shape

FEW = st.integers(1, 3)
CORES = [(0, 0, 1), (1, 1, 1), (1, 3, 1), (2, 1, 2), (2, 2, 1), (4, 2, 2), (6, 2, 3), (2, 4, 1)]  # links, groups


@st.composite
def shapes(draw):
    """Any of them."""
    rails, tors = draw(FEW), draw(FEW)
    cores, core_links, groups = draw(st.sampled_from(CORES))
    return Shape(
        family="any",
        pods=draw(FEW) if cores else 1,
        segments=draw(FEW),
        hosts=draw(FEW),
        backup_hosts=draw(st.integers(0, 2)),
        gpus_per_host=rails * draw(FEW),
        nic_ports=tors * draw(st.integers(1, 2)),
        rails=rails,
        tors=tors,
        planes=draw(st.sampled_from([n for n in range(1, rails * tors + 1) if rails * tors % n == 0])),
        aggs=groups * draw(st.integers(1, 2)),
        tor_links=draw(FEW),
        cores=cores,
        core_links=core_links,
        core_hash=draw(st.sampled_from(["flow", "port"])),
        switch_ports=2**10,
    )
