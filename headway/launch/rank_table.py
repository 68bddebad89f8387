"""Ascend's rank table (hccl.json, version 1.0): which device of which server has which rank and address."""

import ipaddress
import json
import re
from collections.abc import Mapping

from headway.errors import PlanError
from headway.launch.launch_plan import Host, LaunchPlan

WHERE = "/etc/hccn.conf"  # a host's list of its devices' addresses
_ADDRESS = re.compile(r"address_(\d{1,4})\s*=\s*(\S+)")


def device_addresses(text: str, host: str) -> dict[int, str]:
    """Device → IP address from the text of a host's hccn.conf; PlanError where it tells none, or a wrong one."""
    found = {}
    for line in text.splitlines():
        if match := _ADDRESS.fullmatch(line.strip()):
            try:
                found[int(match[1])] = str(ipaddress.ip_address(match[2]))
            except ValueError:
                raise PlanError(f"{WHERE} of {host}: {match[2]} is no IP address (device {match[1]}).") from None
    if not found:
        raise PlanError(f"{WHERE} of {host} tells no addresses of devices. Set them: hccn_tool -i 0 -ip -s …")
    return found


def unreadable(host: str, why: str) -> str:
    """What is said of a host whose list cannot be read."""
    return f"{WHERE} of {host} cannot be read ({why}). Leave --rank-table out, or set the devices' addresses there."


def rank_table(launch: LaunchPlan, devices: Mapping[str, Mapping[int, str]]) -> str:
    """The table's text. `devices`: host → device → IP address.

    Ranks are on a host's devices in rising order, as the workers take them. torchrun's jobs do not need it (their ranks
    meet through the store), and HCCL takes one way or the other: so Headway writes the file and does not name it to its
    own workers.
    """
    servers = []
    for host in launch.hosts:
        first, number = host.ranks
        addresses = devices[host.name]
        missing = [each for each in host.devices if each not in addresses]
        if missing:
            raise PlanError(
                f"{WHERE} of {host.name} has no address of device {missing[0]}; the job takes {number} devices there."
            )
        name = Host(host.name).address
        ranks = enumerate(host.devices, first)
        listed = [{"device_id": str(each), "device_ip": addresses[each], "rank_id": str(rank)} for rank, each in ranks]
        servers.append({"server_id": name, "host_ip": name, "container_ip": name, "device": listed})
    table = {"status": "completed", "version": "1.0", "server_count": str(len(servers)), "server_list": servers}
    return json.dumps(table, indent=1) + "\n"
