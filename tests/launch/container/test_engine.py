"""The engine: a real Docker makes the same container by its interface and by the printed line, and touches no other."""

import contextlib
import dataclasses
import gc
import shutil
import socket
import subprocess
import threading

import pytest

from headway.errors import JobError, PlanError
from headway.launch.container import engine
from headway.launch.container.build import build
from headway.launch.container.docker_line import line
from headway.launch.container.probe import look
from headway.launch.container.profiles import PROFILES, Via
from headway.launch.container.spec import Mount, Port
from headway.launch.container.wanted import Wanted
from headway.units import Bytes, Seconds
from tests.launch.container.own_engine import IMAGE, OTHER, ascend_tree

docker = pytest.mark.docker
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return ascend_tree(tmp_path_factory.mktemp("host"))


@pytest.fixture
def client(docker_engine):
    """The engine without a container, before and after."""
    with engine.connected(docker_engine) as found:
        yield found
        for container in found.containers.list(all=True):
            container.remove(force=True)


def _made(host, profile="ascend", **more):
    wanted = Wanted(profile, more.pop("image", IMAGE), more.pop("name", "job"), **more)
    return build(wanted, look(PROFILES[profile], wanted, str(host))).spec


def _by_line(variables, spec, verb):
    """The container made by the printed line, given to a shell; what needs a GPU is made, and does not start."""
    text = line(spec).replace("docker run", f"docker {verb}", 1)
    done = subprocess.run(["sh", "-c", text], env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 or spec.gpus or spec.ports, done.stderr


def _inspected(client, name):
    """What the engine says of a container, without what two containers cannot share."""
    found = client.containers.get(name).attrs
    return {
        "Path": found["Path"],
        "Args": found["Args"],
        "Config": _filled({**found["Config"], "Env": sorted(found["Config"]["Env"] or [])}),  # their order varies
        "HostConfig": _filled(found["HostConfig"]),
        "Mounts": sorted(found["Mounts"], key=lambda each: each["Destination"]),
        "Networks": sorted(found["NetworkSettings"]["Networks"]),
    }


def _filled(found):
    """What is said in a document, at any depth; clients say nothing as null, as an empty list or not at all."""
    if not isinstance(found, dict):
        return [_filled(each) for each in found] if isinstance(found, list) else found
    inside = {key: _filled(value) for key, value in found.items() if key != "Hostname"}
    return {key: value for key, value in inside.items() if value not in (None, [], {}, "")}


def _both(client, variables, spec, verb="run"):
    from docker.errors import APIError

    engine.create(client, spec)
    if verb == "run":  # it starts, too, which changes what is said of it, even where there is no GPU and no bridge
        with contextlib.suppress(*([APIError] if spec.gpus or spec.ports else [])):
            client.containers.get(spec.name).start()
    by_interface = _inspected(client, spec.name)
    client.containers.get(spec.name).remove(force=True)
    _by_line(variables, spec, verb)
    return by_interface, _inspected(client, spec.name)


@docker
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"ids": (0, 3), "shm_size": Bytes(2**26), "without": ("hccn.conf",)},
        {"via": Via.RUNTIME, "ids": (1, 2)},
        {"command": ("echo", "$HOME 'x' \"y\""), "environment": (("A", "b c"), ("EMPTY", ""))},
        {"workdir": "/usr/local", "network": "none", "user": "1000:1000"},
        {"privileged": True},
    ],
    ids=["all", "private", "runtime", "command", "user", "privileged"],
)
def test_an_ascend_container_is_the_same_by_the_interface_and_by_the_line(client, docker_engine, host, asked):
    by_interface, by_line = _both(client, docker_engine, _made(host, **asked))
    assert by_interface == by_line


@docker
def test_an_a3_host_gives_its_sixteen_devices_by_both(client, docker_engine, tmp_path):
    by_interface, by_line = _both(client, docker_engine, _made(ascend_tree(tmp_path, 16)))
    assert by_interface == by_line
    said = []
    engine.execute(client, "job", ["ls", "/dev"], lambda out, err: said.append(out + err))
    assert {f"davinci{each}" for each in range(16)} <= set(b"".join(said).decode().split())


@docker
def test_a_mount_may_have_any_path(client, docker_engine, host, tmp_path):
    """Commas and quotes are syntax of --mount; spaces and dollars that of a shell."""
    place = tmp_path / "a,b \"c\" 'd' $(touch e):f,readonly"
    place.mkdir()
    (place / "file").write_text("here\n")
    spec = _made(host, "cpu", mounts=(Mount(str(place), "/x", read_only=False),), dangerous_mounts=True)
    by_interface, by_line = _both(client, docker_engine, spec)
    assert by_interface == by_line
    said = []
    assert engine.execute(client, "job", ["cat", "/x/file"], lambda out, err: said.append(out + err)) == 0
    assert b"".join(said) == b"here\n"


@docker
@pytest.mark.parametrize("asked", [{}, {"ids": (0, 2)}, {"ids": (0,)}], ids=["all", "two", "one"])
def test_nvidia_gpus_are_asked_for_alike(client, docker_engine, asked):
    """Only made, not started: there is no GPU here."""
    wanted = Wanted("nvidia", IMAGE, "job", without=("infiniband",), **asked)
    by_interface, by_line = _both(client, docker_engine, build(wanted, None).spec)
    assert by_interface == by_line


@docker
def test_cdi_names_are_asked_for_alike(client, docker_engine):
    program = shutil.which("docker", path=docker_engine["PATH"])
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=20).stdout
    if int(said.split()[2].partition(".")[0]) < 25:
        pytest.skip(f"the docker program here does not know CDI names: {said.strip()}")
    wanted = Wanted("nvidia", IMAGE, "job", via=Via.CDI, ids=(0, 1), without=("infiniband",))
    by_interface, by_line = _both(client, docker_engine, build(wanted, None).spec)
    assert by_interface == by_line
    assert by_line["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]


@docker
def test_a_container_at_a_terminal_is_the_same_too(client, docker_engine, host):
    by_interface, by_line = _both(client, docker_engine, _made(host, terminal=True, command=("sh",)), "create")
    assert by_interface == by_line
    assert by_line["Config"]["Tty"]


@docker
def test_published_ports_are_the_same_too(client, docker_engine, host):
    spec = _made(host, "cpu", network="bridge", ports=(Port(8123, 80), Port(8124, 53, "udp", "127.0.0.1")))
    by_interface, by_line = _both(client, docker_engine, spec)
    assert by_interface == by_line
    assert by_line["HostConfig"]["PortBindings"]["53/udp"] == [{"HostIp": "127.0.0.1", "HostPort": "8124"}]


@docker
def test_a_name_that_is_taken_is_explained(client, host):
    engine.create(client, _made(host))
    with pytest.raises(PlanError) as refused:
        engine.create(client, _made(host))
    assert str(refused.value) == (
        "a container called job exists already (created; Headway made it). Choose another --name, or take it away: "
        "headway container remove job."
    )
    client.containers.create(IMAGE, ["true"], name="foreign")
    with pytest.raises(PlanError, match=r"Headway did not make it.*docker rm foreign"):
        engine.create(client, _made(host, name="foreign"))


@docker
def test_an_absent_image_is_told_with_the_nearest_and_how_to_get_it(client, host):
    with pytest.raises(PlanError) as refused:
        engine.create(client, _made(host, image="headway-test/busybx:1"))
    assert str(refused.value) == (
        f"the engine has no image 'headway-test/busybx:1'. Did you mean '{IMAGE}'? To get it: docker pull "
        "headway-test/busybx:1."
    )
    assert engine.found(client) == ()


@docker
def test_an_absent_runtime_is_told_with_those_that_are_there(client, host):
    spec = dataclasses.replace(_made(host), runtime="ascent")
    with pytest.raises(PlanError, match=r"this engine has no runtime 'ascent'; it has ascend, .*use --via devices"):
        engine.create(client, spec)


@docker
def test_images_are_listed_by_name(client):
    assert [each.name for each in engine.images(client)] == [IMAGE, OTHER]
    assert all(each.size > 10_000 and each.created.startswith("20") for each in engine.images(client))


@docker
def test_containers_that_others_made_are_left_alone(client):
    client.containers.create(IMAGE, ["sleep", "60"], name="foreign").start()
    for verb in (
        lambda: engine.start(client, "foreign"),
        lambda: engine.stop(client, "foreign", 0),
        lambda: engine.remove(client, "foreign", running=True),
        lambda: engine.execute(client, "foreign", ["true"], print),
        lambda: list(engine.logs(client, "foreign", follow=False, tail=None)),
    ):
        with pytest.raises(PlanError, match=r"the container 'foreign' was not made by Headway \(it has no label"):
            verb()
    assert client.containers.get("foreign").status == "running"
    assert engine.found(client) == ()


@docker
@pytest.mark.parametrize("name", ["../images/json", "-a", "a b", "job/../foreign", ""])
def test_a_name_cannot_lead_elsewhere_in_the_engines_interface(client, name):
    with pytest.raises(PlanError, match="is no name of a container"):
        engine.stop(client, name, 0)


@docker
def test_an_unknown_container_is_told_with_the_nearest(client, host):
    with pytest.raises(PlanError, match=r"there is no container called 'jbo'\. Headway has none here"):
        engine.start(client, "jbo")
    engine.create(client, _made(host))
    with pytest.raises(PlanError, match=r"there is no container called 'jbo'\. Did you mean 'job'\?"):
        engine.start(client, "jbo")


@docker
def test_a_device_that_went_away_is_named_at_the_start(client, tmp_path):
    spec = _made(ascend_tree(tmp_path))
    engine.create(client, spec)
    (tmp_path / "dev" / "davinci3").unlink()
    with pytest.raises(JobError) as failed, engine.connected({"DOCKER_HOST": client_address(client)}) as again:
        engine.start(again, "job")
    assert "davinci3" in str(failed.value)
    assert "The host has lost that device" in str(failed.value)


def client_address(client):
    """Where the engine listens, in the form of DOCKER_HOST."""
    return "unix://" + client.api._custom_adapter.socket_path


@docker
def test_a_command_that_the_image_has_not_is_explained(client, docker_engine, host):
    engine.create(client, _made(host, command=("python", "train.py")))
    with (
        pytest.raises(JobError, match="Give a command that the image has, after --"),
        engine.connected(docker_engine) as again,
    ):
        engine.start(again, "job")


@docker
def test_two_containers_with_the_same_device_are_remarked_on(client, host):
    engine.create(client, _made(host, name="one", ids=(0, 1, 2)))
    engine.create(client, _made(host, name="two", ids=(2, 3)))
    engine.create(client, _made(host, name="three", ids=(4,)))
    assert engine.start(client, "one") == (True, ())
    assert engine.start(client, "one") == (False, ())
    assert engine.start(client, "two") == (True, ("one",))
    assert engine.start(client, "three") == (True, ())


@docker
def test_a_running_container_is_removed_only_if_that_is_meant(client, host):
    engine.create(client, _made(host))
    engine.start(client, "job")
    with pytest.raises(PlanError, match=r"job is running. Stop it first .*--force"):
        engine.remove(client, "job", running=False)
    engine.remove(client, "job", running=True)
    assert engine.found(client) == ()


@docker
def test_a_command_runs_in_a_running_container_only_and_its_status_is_told(client, host):
    engine.create(client, _made(host))
    with pytest.raises(PlanError, match=r"job is created, not running\. Start it: headway container start job"):
        engine.execute(client, "job", ["true"], print)
    engine.start(client, "job")
    said = []
    status = engine.execute(
        client, "job", ["sh", "-c", "echo out; echo err >&2; exit 3"], lambda *both: said.append(both)
    )
    assert status == 3
    assert b"".join(out for out, _ in said) == b"out\n"
    assert b"".join(err for _, err in said) == b"err\n"


@docker
def test_what_a_container_wrote_stays_readable_and_its_end_is_known(client, host):
    engine.create(client, _made(host, command=("sh", "-c", "for i in 1 2 3; do echo line $i; done; exit 7")))
    engine.start(client, "job")
    client.containers.get("job").wait(timeout=30)
    assert b"".join(engine.logs(client, "job", follow=True, tail=None)) == b"line 1\nline 2\nline 3\n"
    assert b"".join(engine.logs(client, "job", follow=False, tail=1)) == b"line 3\n"
    (found,) = engine.found(client)
    assert (found.state, found.exit_status, found.devices) == ("exited", 7, "0-7")


@docker
def test_a_waiting_container_stops_at_once(client, host):
    engine.create(client, _made(host))
    engine.start(client, "job")
    assert engine.stop(client, "job", 60)
    (found,) = engine.found(client)
    assert (found.state, found.exit_status) == ("exited", 0)  # not killed: that is 137
    assert not engine.stop(client, "job", 60)


def _fails(address, within=1):
    with pytest.raises(JobError) as failed, engine.connected({"DOCKER_HOST": address}, Seconds(within)):
        pytest.fail("nothing listens there")
    message = str(failed.value)
    del failed
    gc.collect()  # the package leaves sockets of failed connections to the collector, which warns of them
    return message


def test_no_engine_is_one_clear_message(tmp_path):
    said = _fails(f"unix://{tmp_path}/none.sock")
    assert said.startswith(f"no engine listens at unix://{tmp_path}/none.sock: there is no such socket. Start it")


def test_an_engine_that_is_gone_is_one_clear_message(tmp_path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as gone:
        gone.bind(f"{tmp_path}/sock")
    assert "connections are refused. Start it" in _fails(f"unix://{tmp_path}/sock")


def test_an_engine_that_keeps_silent_is_one_clear_message(tmp_path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as silent:
        silent.bind(f"{tmp_path}/sock")
        silent.listen()
        assert f"the engine at unix://{tmp_path}/sock did not answer within 1 s" in _fails(f"unix://{tmp_path}/sock")


def test_something_else_that_listens_is_one_clear_message(tmp_path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as other:
        other.bind(f"{tmp_path}/sock")
        other.listen()

        def answer():
            for _ in range(2):  # the first only knocks
                connection, _ = other.accept()
                with connection:
                    if connection.recv(4096):
                        connection.sendall(
                            b"HTTP/1.1 418 no\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nteapot"
                        )

        thread = threading.Thread(target=answer)
        thread.start()
        said = _fails(f"unix://{tmp_path}/sock")
        thread.join()
    assert f"the engine at unix://{tmp_path}/sock cannot be talked to" in said


@pytest.mark.parametrize("address", ["nonsense://x", "unix:relative", "tcp://127.0.0.1:1", "ssh://nobody@127.0.0.1:1"])
def test_an_address_that_is_none_is_one_clear_message(address):
    said = _fails(address)
    assert address in said
    assert "DOCKER_HOST" in said
