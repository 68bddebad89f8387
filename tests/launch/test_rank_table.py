"""Ascend's rank table, version 1.0, from what each host says about its devices."""

import json
from pathlib import PurePosixPath

import pytest

from headway.errors import PlanError
from headway.launch.launch_plan import Host, Site, launch_plan
from headway.launch.rank_table import device_addresses, rank_table

HCCN = "address_0=192.168.100.101\nnetmask_0=255.255.255.0\naddress_1 = 192.168.101.101\ngateway_0=192.168.100.1\n"


@pytest.fixture
def launch(plan_of):
    model = {"layers": 2, "hidden": 32, "heads": 2, "feed_forward": 64, "vocabulary": 256, "positions": 64}
    train = {"global_batch": 4, "microbatch": 1}
    sizes = {"pipeline": 1, "data": 4}
    plan = plan_of(cluster="ascend-910b", model=model, parallel=sizes, data={"sequence_length": 32}, train=train)
    return launch_plan(plan, PurePosixPath("/run"), [Host("root@a"), Host("10.0.0.2")], Site("/python", "/work"))


def test_the_golden_table(launch):
    devices = {"root@a": device_addresses(HCCN, "a"), "10.0.0.2": {0: "192.168.100.102", 1: "192.168.101.102"}}
    assert json.loads(rank_table(launch, devices)) == {
        "status": "completed",
        "version": "1.0",
        "server_count": "2",
        "server_list": [
            {
                "server_id": "a",
                "host_ip": "a",
                "container_ip": "a",
                "device": [
                    {"device_id": "0", "device_ip": "192.168.100.101", "rank_id": "0"},
                    {"device_id": "1", "device_ip": "192.168.101.101", "rank_id": "1"},
                ],
            },
            {
                "server_id": "10.0.0.2",
                "host_ip": "10.0.0.2",
                "container_ip": "10.0.0.2",
                "device": [
                    {"device_id": "0", "device_ip": "192.168.100.102", "rank_id": "2"},
                    {"device_id": "1", "device_ip": "192.168.101.102", "rank_id": "3"},
                ],
            },
        ],
    }


def test_a_device_without_an_address_is_named(launch):
    with pytest.raises(PlanError, match=r"of 10.0.0.2 has no address of device 1; the job takes 2 devices there"):
        rank_table(launch, {"root@a": device_addresses(HCCN, "a"), "10.0.0.2": {0: "192.168.100.102"}})


@pytest.mark.parametrize("text", ["", "netmask_0=255.255.255.0\n", "address=1\n"])
def test_a_host_that_tells_no_addresses_is_named(text):
    with pytest.raises(PlanError, match="of a tells no addresses of devices"):
        device_addresses(text, "a")


def test_an_address_that_is_none_is_named():
    with pytest.raises(PlanError, match=r"of a: 300.1.1.1 is no IP address .device 0."):
        device_addresses("address_0=300.1.1.1", "a")
