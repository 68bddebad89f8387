"""Clusters known by name, with the source of each number."""

from headway.cluster.spec import Cluster, Device, Link
from headway.env import machine_memory, num_cores, processor_flags
from headway.errors import PlanError, nearest
from headway.units import Bytes, BytesPerSecond, Dtype, FlopsPerSecond, Seconds, parse_bandwidth, parse_bytes

MAX_LOCAL_RANKS = 64


def preset(name: str) -> Cluster:
    """The cluster called `name`."""
    if name not in _PRESETS:
        raise PlanError(f"no cluster preset is called '{name}'. {nearest(name, _PRESETS)}")
    return _PRESETS[name]()


def local_cpu() -> Cluster:
    """This machine's cores and memory; ranks beyond the cores share them.

    One thread of an AVX-512 server core (AMD EPYC, 2026) with torch 2.13. Products, launch and link: bench/device.py.
    The memory bandwidth is what a step's eager kernels reach, whose GELU and softmax compute more than they stream
    (plain streams reach 24 GB/s): chosen once so that steps of five models on one process come out within 10 %.
    The peak is an assumption: 64 float32 operations a cycle at 2.4 GHz.
    bfloat16 products reach 1000 GFLOP/s of 2048 operations a cycle where the processor has AMX. Elsewhere, and in
    float16, torch 2.13 takes them without vectors: 1.2 GFLOP/s on a busy AMD EPYC with AVX2 (bench/device.py, 2026-11).
    """
    float32, float64 = FlopsPerSecond(150e9), FlopsPerSecond(75e9)
    amx = "amx_bf16" in processor_flags()
    slow, bfloat16 = FlopsPerSecond(1.2e9), FlopsPerSecond(1000e9 if amx else 1.2e9)
    memory = machine_memory()
    device = Device(
        "CPU core",
        "cpu",
        memory,
        peak={
            Dtype.FLOAT32: float32,
            Dtype.FLOAT64: float64,
            Dtype.BFLOAT16: FlopsPerSecond(4900e9) if amx else float32,
            Dtype.FLOAT16: float32,
        },
        matmul={
            Dtype.FLOAT32: FlopsPerSecond(95e9),
            Dtype.FLOAT64: FlopsPerSecond(47e9),
            Dtype.BFLOAT16: bfloat16,
            Dtype.FLOAT16: slow,
        },
        memory_bandwidth=BytesPerSecond(9e9),
        launch=Seconds(6e-6),
    )
    loopback = Link("gloo over loopback", Seconds(120e-6), BytesPerSecond(2e9))
    return Cluster("local-cpu", 1, MAX_LOCAL_RANKS, device, loopback, loopback, shared_cores=num_cores())


def _cuda(name: str, memory: str, float32: float, float64: float, half: float, bandwidth: str) -> Device:
    """An NVIDIA device from its data sheet; products reach 80 % of the peak and streams 85 % (an assumption).

    `half`: of the tensor cores in bfloat16 and in float16, without sparsity.
    """
    rates = {Dtype.FLOAT32: float32, Dtype.FLOAT64: float64, Dtype.BFLOAT16: half, Dtype.FLOAT16: half}
    return Device(
        name,
        "cuda",
        parse_bytes(memory),
        peak={dtype: FlopsPerSecond(rate) for dtype, rate in rates.items()},
        matmul={dtype: FlopsPerSecond(0.8 * rate) for dtype, rate in rates.items()},
        memory_bandwidth=BytesPerSecond(0.85 * parse_bandwidth(bandwidth)),
        launch=Seconds(5e-6),
    )


def _a100_80gb_hdr() -> Cluster:
    """The cluster of Narayanan et al. 2021, §5: DGX A100, NVLink 3 (300 GB/s a direction), one HDR NIC a GPU."""
    device = _cuda("A100-80GB", "80GiB", 19.5e12, 9.7e12, 312e12, "2039GB/s")  # NVIDIA A100 data sheet, 2021; no TF32
    nvlink = Link("NVLink 3", Seconds(5e-6), BytesPerSecond(parse_bandwidth("300GB/s") * 0.8))
    hdr = Link("HDR InfiniBand", Seconds(8e-6), BytesPerSecond(parse_bandwidth("200Gbps") * 0.9))
    return Cluster("a100-80gb-hdr", 384, 8, device, nvlink, hdr)


def _h800_hpn() -> Cluster:
    """Alibaba HPN (Qian et al. 2024): 8 GPUs a host, NVLink 400 GB/s both ways together, 2 × 200 Gbps a GPU."""
    device = _cuda("H800-80GB", "80GiB", 67e12, 1e12, 989e12, "3350GB/s")  # NVIDIA H800 data sheet, 2023
    nvlink = Link("NVLink 4 (H800)", Seconds(5e-6), BytesPerSecond(parse_bandwidth("200GB/s") * 0.8))
    nic = Link("2 × 200 Gbps RoCE", Seconds(8e-6), BytesPerSecond(parse_bandwidth("400Gbps") * 0.9))
    return Cluster("h800-hpn", 1920, 8, device, nvlink, nic)


def _ascend_910b() -> Cluster:
    """Atlas 800T A2: 8 × Ascend 910B with 64 GB, HCCS full mesh (56 GB/s a pair), one 200 Gbps NIC an NPU.

    16-bit: 313 TFLOP/s, the 910B3's figure in secondary sources; products reach of it what float32's reach.
    """
    half = (313e12, 233e12)
    rates = {
        Dtype.FLOAT32: (94e12, 70e12),
        Dtype.FLOAT64: (1e12, 0.8e12),
        Dtype.BFLOAT16: half,
        Dtype.FLOAT16: half,
    }
    device = Device(
        "Ascend 910B",
        "npu",
        Bytes(64 * 2**30),
        peak={dtype: FlopsPerSecond(peak) for dtype, (peak, _) in rates.items()},
        matmul={dtype: FlopsPerSecond(reached) for dtype, (_, reached) in rates.items()},
        memory_bandwidth=BytesPerSecond(0.85 * 1.6e12),
        launch=Seconds(10e-6),
    )
    hccs = Link("HCCS", Seconds(8e-6), BytesPerSecond(parse_bandwidth("196GB/s") * 0.8))
    nic = Link("200 Gbps RoCE", Seconds(10e-6), BytesPerSecond(parse_bandwidth("200Gbps") * 0.9))
    return Cluster("ascend-910b", 128, 8, device, hccs, nic)


_PRESETS = {
    "local-cpu": local_cpu,
    "a100-80gb-hdr": _a100_80gb_hdr,
    "h800-hpn": _h800_hpn,
    "ascend-910b": _ascend_910b,
}


def device(name: str) -> Device:
    """PLACEHOLDER until the merge: the device called `name`."""
    if name not in _DEVICES:
        raise PlanError(f"no device is called '{name}'. {nearest(name, _DEVICES)}")
    memory, half, bandwidth = _DEVICES[name]
    return _cuda(name, memory, 19.5e12, 9.7e12, half, bandwidth)


def of_devices(device: Device, *, nodes: int, per_node: int, inside: str, network: BytesPerSecond) -> Cluster:
    """PLACEHOLDER until the merge: alike nodes of `device`."""
    link = Link(inside or "own", Seconds(5e-6), BytesPerSecond(240e9))
    return Cluster(f"{device.name} nodes", nodes, per_node, device, link, Link("network", Seconds(8e-6), network))


_DEVICES = {
    "A100-80GB": ("80GiB", 312e12, "2039GB/s"),
    "A100-40GB": ("40GiB", 312e12, "1555GB/s"),
    "V100-32GB": ("32GiB", 125e12, "900GB/s"),
    "V100-16GB": ("16GiB", 125e12, "900GB/s"),
    "H100-80GB": ("80GiB", 989e12, "3350GB/s"),
    "H100-96GB-500W": ("96GiB", 800e12, "2400GB/s"),
    "H200-141GB": ("141GiB", 989e12, "4800GB/s"),
    "Ascend-910B": ("64GiB", 313e12, "1600GB/s"),
}
