"""The line of `docker run`: as it stands for known hosts, and that no value in it can become anything else."""

import csv
import io
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.launch.container.build import build
from headway.launch.container.docker_line import line, words
from headway.launch.container.profiles import Via
from headway.launch.container.spec import Mount, Port
from headway.launch.container.wanted import Wanted
from headway.units import Bytes

IDLE = """sh -c 'trap "exit 0" TERM; sleep infinity & wait'"""
ASCEND_MOUNTS = """
--mount=type=bind,source=/usr/local/Ascend/driver,target=/usr/local/Ascend/driver,readonly
--mount=type=bind,source=/usr/local/dcmi,target=/usr/local/dcmi,readonly
--mount=type=bind,source=/usr/local/bin/npu-smi,target=/usr/local/bin/npu-smi,readonly
--mount=type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly
--mount=type=bind,source=/etc/hccn.conf,target=/etc/hccn.conf,readonly
--mount=type=bind,source=/usr/local/Ascend/firmware,target=/usr/local/Ascend/firmware,readonly
--mount=type=bind,source=/usr/local/Ascend/add-ons,target=/usr/local/Ascend/add-ons,readonly
"""
A2 = f"""
docker run -d --name=job --label=headway.devices=0-7 --label=headway.profile=ascend --network=host --ipc=host
--pids-limit=409600 --ulimit=memlock=-1:-1 --ulimit=nofile=1048576:1048576 --cap-add=CAP_IPC_LOCK
--device=/dev/davinci0 --device=/dev/davinci1 --device=/dev/davinci2 --device=/dev/davinci3
--device=/dev/davinci4 --device=/dev/davinci5 --device=/dev/davinci6 --device=/dev/davinci7
--device=/dev/davinci_manager --device=/dev/hisi_hdc --device=/dev/devmm_svm {ASCEND_MOUNTS}
--mount=type=bind,source=/home/me/job,target=/work --workdir=/work cann:8.5 {IDLE}
"""
A3_AT_A_TERMINAL = f"""
docker run -it --name=job --label=headway.devices=0-15 --label=headway.profile=ascend --network=host --ipc=private
--shm-size=68719476736 --pids-limit=409600 --ulimit=memlock=-1:-1 --ulimit=nofile=1048576:1048576
--cap-add=CAP_IPC_LOCK
--device=/dev/davinci0 --device=/dev/davinci1 --device=/dev/davinci2 --device=/dev/davinci3
--device=/dev/davinci4 --device=/dev/davinci5 --device=/dev/davinci6 --device=/dev/davinci7
--device=/dev/davinci8 --device=/dev/davinci9 --device=/dev/davinci10 --device=/dev/davinci11
--device=/dev/davinci12 --device=/dev/davinci13 --device=/dev/davinci14 --device=/dev/davinci15
--device=/dev/davinci_manager --device=/dev/hisi_hdc --device=/dev/devmm_svm {ASCEND_MOUNTS} cann:8.5 bash
"""
ASCEND_RUNTIME = f"""
docker run -d --name=job --label=headway.devices=0-3,6 --label=headway.profile=ascend --network=host --ipc=host
--pids-limit=409600 --ulimit=memlock=-1:-1 --ulimit=nofile=1048576:1048576 --cap-add=CAP_IPC_LOCK --runtime=ascend
--mount=type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly
--env=ASCEND_VISIBLE_DEVICES=0-3,6 cann:8.5 {IDLE}
"""
NVIDIA_CDI = """
docker run -d --name=job --label=headway.devices=0,2 --label=headway.profile=nvidia --network=host --ipc=host
--pids-limit=409600 --ulimit=memlock=-1:-1 --ulimit=stack=67108864:67108864 --device=nvidia.com/gpu=0
--device=nvidia.com/gpu=2 torch:2.13 python train.py
"""
NVIDIA_GPUS = """
docker run -d --name=job --label=headway.devices=0,2 --label=headway.profile=nvidia --network=host --ipc=host
--pids-limit=409600 --ulimit=memlock=-1:-1 --ulimit=stack=67108864:67108864 '--gpus="device=0,2"' torch:2.13
python train.py
"""
NVIDIA_RDMA = """
docker run -d --name=job --label=headway.devices=all --label=headway.profile=nvidia --network=host --ipc=host
--pids-limit=409600 --ulimit=memlock=-1:-1 --ulimit=stack=67108864:67108864 --cap-add=CAP_IPC_LOCK --gpus=all
--device=/dev/infiniband torch:2.13 python train.py
"""
CPU = """
docker run -d --name=job --label=headway.profile=cpu --network=bridge --publish=8080:80/tcp
--publish=127.0.0.1:53:53/udp --ipc=host --pids-limit=409600 --user=1000:1000 --env=OMP_NUM_THREADS=1 busybox:1 true
"""


def _ascend(**more):
    return Wanted("ascend", "cann:8.5", "job", **more)


def _nvidia(**more):
    return Wanted("nvidia", "torch:2.13", "job", ("python", "train.py"), **more)


@pytest.mark.parametrize(
    ("wanted", "golden"),
    [
        (_ascend(ids=tuple(range(8)), mounts=(Mount("/home/me/job", "/work", read_only=False),), workdir="/work"), A2),
        (_ascend(ids=tuple(range(16)), shm_size=Bytes(2**36), terminal=True), A3_AT_A_TERMINAL),
        (
            _ascend(ids=(0, 1, 2, 3, 6), via=Via.RUNTIME, without=("hccn.conf", "firmware", "add-ons")),
            ASCEND_RUNTIME,
        ),
        (_nvidia(ids=(0, 2), via=Via.CDI, without=("infiniband",)), NVIDIA_CDI),
        (_nvidia(ids=(0, 2), without=("infiniband",)), NVIDIA_GPUS),
        (_nvidia(), NVIDIA_RDMA),
        (
            Wanted(
                "cpu",
                "busybox:1",
                "job",
                ("true",),
                environment=(("OMP_NUM_THREADS", "1"),),
                network="bridge",
                ports=(Port(8080, 80), Port(53, 53, "udp", "127.0.0.1")),
                user="1000:1000",
            ),
            CPU,
        ),
    ],
    ids=["ascend-a2", "ascend-a3", "ascend-runtime", "nvidia-cdi", "nvidia-gpus", "nvidia-rdma", "cpu"],
)
def test_the_line_for_a_known_host(wanted, golden):
    assert line(build(wanted, None).spec) == " ".join(golden.split())


_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
_NASTY = st.sampled_from(
    ["--privileged", "-v/:/h", "$(reboot)", "`id`", "; id", "'", '"', ",readonly", " ", "\\", "*", "~", "#"]
)
_VALUES = st.one_of(_TEXT, _NASTY, st.builds(str.__add__, _NASTY, _TEXT))
_PATHS = st.lists(
    _VALUES.map(lambda text: text.replace("/", "")).filter(lambda text: text not in {"", ".", ".."}),
    min_size=1,
    max_size=3,
)
_ABSOLUTE = _PATHS.map(lambda parts: "/" + "/".join(parts))
_NAMES = st.from_regex(r"\A[a-zA-Z0-9][a-zA-Z0-9_.-]{1,12}\Z")
_WANTED = st.builds(
    Wanted,
    profile=st.just("cpu"),
    image=st.from_regex(r"\A[a-z0-9][a-z0-9_.:/@-]{0,12}\Z"),
    name=_NAMES,
    command=st.lists(_VALUES, min_size=1, max_size=4).map(tuple),
    mounts=st.lists(_ABSOLUTE, max_size=3).map(
        lambda places: tuple(Mount(place, f"/m{i}{place}", read_only=i % 2 == 0) for i, place in enumerate(places))
    ),
    workdir=st.none() | _ABSOLUTE,
    environment=st.dictionaries(st.from_regex(r"\A[A-Z_][A-Z0-9_]{0,5}\Z"), _VALUES, max_size=3).map(
        lambda found: tuple(found.items())
    ),
    dangerous_mounts=st.sampled_from([True]),
)


def _read(given_words):
    """Option values, image and command of a `docker run`, read as Docker reads them: options end at the first word."""
    assert given_words[:3] == ["docker", "run", "-d"]
    options: dict[str, list[str]] = {}
    for i, word in enumerate(given_words[3:], 3):
        if not word.startswith("-"):
            return options, word, tuple(given_words[i + 1 :])
        name, equals, value = word.partition("=")
        assert name.startswith("--")
        assert equals
        options.setdefault(name.removeprefix("--"), []).append(value)
    raise AssertionError("no image")


def _mount(value):
    (fields,) = csv.reader(io.StringIO(value))
    pairs = dict(field.partition("=")[::2] for field in fields)
    assert pairs.pop("type") == "bind"
    return Mount(pairs["source"], pairs["target"], read_only="readonly" in pairs)


@given(_WANTED)
@settings(max_examples=100)
def test_the_shells_words_are_exactly_what_was_meant(wanted):
    """Whatever is in names, paths, variables and commands, a shell and Docker read it back as that and nothing else."""
    spec = build(wanted, None).spec
    split = shlex.split(line(spec))
    assert tuple(split) == words(spec)
    options, image, command = _read(split)
    assert (image, command) == (wanted.image, wanted.command)
    assert set(options) <= {"name", "label", "network", "ipc", "pids-limit", "mount", "workdir", "env"}
    assert options["name"] == [wanted.name]
    assert tuple(map(_mount, options.get("mount", []))) == wanted.mounts
    assert options.get("workdir", []) == ([wanted.workdir] if wanted.workdir else [])
    assert tuple(tuple(each.split("=", 1)) for each in options.get("env", [])) == wanted.environment


def test_a_real_shell_reads_the_same_words(tmp_path):
    """Not only Python's idea of a shell: the line is run by sh, with a program called docker that tells its words."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
    docker.chmod(0o755)
    nasty = (
        "$(touch broken)",
        "`touch broken`",
        "; touch broken",
        "&& touch broken",
        "a'b\"c",
        "*",
        "~",
        "--privileged",
        "!!",
        "\\",
        "",
    )
    wanted = Wanted(
        "cpu",
        "busybox:1",
        "job",
        nasty,
        environment=tuple((f"V{i}", value) for i, value in enumerate(nasty)),
        mounts=(Mount("/a,b 'c' $(touch broken)", "/x", read_only=True),),
    )
    spec = build(wanted, None).spec
    done = subprocess.run(
        ["sh", "-c", line(spec)],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
        timeout=20,
    )
    assert tuple(done.stdout.decode().split("\0")[:-1]) == words(spec)[1:]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["docker"]
