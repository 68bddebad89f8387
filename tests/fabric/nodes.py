"""Insides of hosts as NCCL writes them, for tests."""

from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "node.xml"  # 8 GPUs, 8 cards of two ports, a frontend card

# two GPUs on PCI under two CPUs, a switch below a switch, one card under the first GPU's switches, one on no PCI bus
SMALL = """<?xml version="1.0" encoding="utf-8"?>
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="8">
        <pci busid="0000:03:00.0" class="0x030000" link_speed="16.0 GT/s PCIe" link_width="16">
          <gpu dev="0" sm="86" rank="1" gdr="0">
            <nvlink target="0000:81:00.0" count="4" tclass="0x030000"/>
          </gpu>
        </pci>
      </pci>
      <pci busid="0000:04:00.0" class="0x020000" link_speed="8 GT/s" link_width="8">
        <nic>
          <net name="mlx5_0" dev="0" speed="100000" port="1" latency="2.5" gdr="1" colour="red"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
    <pci busid="0000:81:00.0" class="0x030000" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="86" gdr="0">
        <nvlink target="0000:03:00.0" count="4" tclass="0x030000"/>
        <c2c bw="1" count="2"/>
      </gpu>
    </pci>
    <nic>
      <net name="eth0" dev="1" speed="-1" port="0"/>
    </nic>
  </cpu>
  <future><pci/></future>
</system>
"""


def host(*parts: str) -> bytes:
    """A host whose one CPU holds these elements."""
    return f'<system version="1"><cpu numaid="0">{"".join(parts)}</cpu></system>'.encode()


def pci(bus: int, *inside: str, speed: str = "16.0 GT/s PCIe", width: int | str = 16, more: str = "") -> str:
    """An element on the PCI bus with that number."""
    link = f'link_speed="{speed}" link_width="{width}"'
    return f'<pci busid="0000:{bus:02x}:00.0" {link} {more}>{"".join(inside)}</pci>'


def gpu(dev: int, *inside: str) -> str:
    """A GPU."""
    return f'<gpu dev="{dev}" sm="90" rank="{dev}" gdr="1">{"".join(inside)}</gpu>'


def nic(*devs: int, speed: int = 200_000, more: str = "") -> str:
    """A card with so many ports."""
    nets = (f'<net name="mlx5_{dev}" dev="{dev}" speed="{speed}" port="1" gdr="1" {more}/>' for dev in devs)
    return f"<nic>{''.join(nets)}</nic>"
