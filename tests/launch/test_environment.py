"""What hosts are told: interfaces, limits, what is passed on and what is masked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.fabric.shape import parse as shape
from headway.fabric.topologies import build
from headway.launch.environment import MASK, Network, check_variable, derived, is_secret, masked, parse_nccl, variables


def test_each_library_is_bound_to_the_interface_in_its_own_spelling():
    assert dict(derived(Network("cpu", "eth0")))["GLOO_SOCKET_IFNAME"] == "eth0"
    cuda, npu = dict(derived(Network("cuda", "eth0"))), dict(derived(Network("npu", "bond0")))
    assert (cuda["NCCL_SOCKET_IFNAME"], cuda["GLOO_SOCKET_IFNAME"]) == ("=eth0", "eth0")
    assert {npu[f"{library}_SOCKET_IFNAME"] for library in ("HCCL", "TP", "GLOO")} == {"bond0"}
    assert "HCCL_IF_IP" not in npu  # each host has its own
    assert not [name for name in dict(derived(Network("cuda"))) if "IFNAME" in name]


def test_hccl_waits_for_hosts_as_long_as_the_trainer_and_leaves_its_end_to_the_watchdog():
    found = dict(derived(Network("npu")))
    assert (found["HCCL_CONNECT_TIMEOUT"], found["HCCL_EXEC_TIMEOUT"]) == ("300", "0")
    assert not [name for name in dict(derived(Network("cpu"))) if name.startswith(("HCCL", "NCCL"))]


def test_every_process_computes_with_one_thread():
    assert dict(derived(Network("cpu")))["OMP_NUM_THREADS"] == "1"


def test_nccl_is_told_rails_and_planes_from_the_version_on_that_documents_them():
    fabric = build(shape("hpn segments=1 hosts=2"))
    found = dict(derived(Network("cuda", nccl=(2, 30, 5), fabric=fabric)))
    assert found["NCCL_IB_HCA"].startswith("=mlx5_0:1:0:0,mlx5_1:1:0:1,mlx5_2:1:1:0")
    for version, said in (((2, 29, 9), "NCCL 2.29.9 may not know"), (None, "of a version that is not told")):
        with pytest.raises(PlanError, match=said):
            derived(Network("cuda", nccl=version, fabric=fabric))
    assert "NCCL_IB_HCA" not in dict(derived(Network("cuda", nccl=(2, 30, 5))))


@pytest.mark.parametrize("text", ["", "2", "2.30", "v2.30.5", "2.30.5 "])
def test_what_is_no_version_is_refused(text):
    with pytest.raises(PlanError, match="is no version of NCCL"):
        parse_nccl(text)


@pytest.mark.parametrize("name", ["", "-x", "eth0 eth1", "eth0;x", "^docker", "a\nb"])
def test_what_is_no_interface_is_refused(name):
    with pytest.raises(PlanError, match="is no name of a network interface"):
        Network("cpu", name)


HERE = {
    "NCCL_DEBUG": "WARN",
    "PYTHONPATH": "/src",
    "HOME": "/root",
    "AWS_SECRET_ACCESS_KEY": "hush",
    "NCCL_FAKE_TOKEN": "hush",
    "CUDA_VISIBLE_DEVICES": "3",
    "HCCL_IF_IP": "10.0.0.1",
    "NCCL_TOPO_FILE": "/tmp/mine.xml",
    "TORCH_ODD": "two\nlines",
    "WANTED": "yes",
}


def test_only_what_the_list_allows_is_passed_on_and_nothing_that_is_of_one_host():
    found = dict(variables(Network("cpu"), HERE))
    assert {name: found[name] for name in HERE if name in found} == {"NCCL_DEBUG": "WARN", "PYTHONPATH": "/src"}


def test_what_is_named_is_passed_on_with_its_value_here_or_a_given_one():
    found = dict(variables(Network("cpu"), HERE, ["WANTED", "AWS_SECRET_ACCESS_KEY", "NEW=a=b", "NCCL_DEBUG=INFO"]))
    assert (found["WANTED"], found["NEW"], found["NCCL_DEBUG"]) == ("yes", "a=b", "INFO")
    assert found["AWS_SECRET_ACCESS_KEY"] == "hush"


def test_the_users_own_setting_comes_before_what_is_derived():
    assert dict(variables(Network("cuda", "eth0"), {"NCCL_SOCKET_IFNAME": "=ib0"}))["NCCL_SOCKET_IFNAME"] == "=ib0"
    assert dict(variables(Network("cpu"), {}, ["OMP_NUM_THREADS=4"]))["OMP_NUM_THREADS"] == "4"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("ABSENT", "--env ABSENT: it is not set here"),
        ("A B=c", "is no name of a variable"),
        ("-x=c", "is no name of a variable"),
        ("A=two\udcff", "the value of A has control characters or is no UTF-8"),
        ("A=two\nlines", "the value of A has control characters"),
        ("TORCH_ODD", "the value of TORCH_ODD has control characters"),
    ],
)
def test_variables_that_cannot_be_passed_on_are_refused(word, said):
    with pytest.raises(PlanError, match=said) as refused:
        variables(Network("cpu"), HERE, [word])
    assert "two" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "MY_SECRET",
        "DB_PASSWORD",
        "PGPASSWD",
        "DB_PASS",
        "MYSQL_PWD",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "my_auth",
    ],
)
def test_secrets_are_known_by_their_names(name):
    assert is_secret(name)
    assert masked(((name, "hush"),)) == ((name, MASK),)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "NCCL_IB_PKEY", "PWD", "OLDPWD", "MASTER_ADDR"])
def test_what_only_sounds_like_a_secret_is_none(name):
    assert not is_secret(name, "3")


def test_the_partition_of_an_infiniband_network_is_passed_on():
    assert dict(variables(Network("cuda"), {"NCCL_IB_PKEY": "1"}))["NCCL_IB_PKEY"] == "1"


@pytest.mark.parametrize("password", ["hush", "me:hush", "me:hu@sh", "me:hu/sh"])
def test_a_password_in_an_address_is_a_secret_too(password):
    assert masked((("http_proxy", f"http://{password}@proxy:1"),)) == (("http_proxy", f"http://{MASK}@proxy:1"),)
    assert is_secret("http_proxy", f"http://{password}@proxy:1")
    assert not is_secret("http_proxy", "http://proxy:1")


@given(st.sampled_from(["A_TOKEN", "KEY", "x_secret_y", "PASSWORD1"]), st.text(min_size=3))
def test_no_secret_is_ever_shown(name, value):
    assert all(value not in shown or value in MASK for _, shown in masked(((name, value),)))


@given(st.text(), st.text())
def test_a_variable_that_is_taken_fits_on_a_line(name, value):
    try:
        check_variable(name, value)
    except PlanError:
        return
    assert name.isidentifier()
    assert "\n" not in value
    assert "\0" not in value
