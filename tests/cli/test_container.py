"""headway container command, and what the other verbs say where there is no engine."""

import contextlib
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cli.container.making import command, create
from headway.cli.main import main
from headway.launch.container.build import IDLE
from headway.launch.container.profiles import PROFILES

ROOT = Path(__file__).parent.parent.parent
ASCEND = "--profile ascend --image cann:8.5 --name job"
NVIDIA = "--profile nvidia --image torch:2.13 --name job"


@pytest.fixture(autouse=True)
def _plain(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def _said(capsys, line, status=0):
    assert main(["container", *shlex.split(line)]) == status
    return capsys.readouterr()


def test_the_line_is_alone_on_stdout_and_what_is_in_it_on_stderr(capsys):
    said = _said(capsys, f"command {ASCEND} --devices 0-7 --mount /home/me:/work --workdir /work")
    (line,) = said.out.splitlines()
    words = shlex.split(line)
    assert words[:4] == ["docker", "run", "-d", "--name=job"]
    assert [word for word in words if word.startswith("--device=/dev/davinci")][-2:] == [
        "--device=/dev/davinci7",
        "--device=/dev/davinci_manager",
    ]
    for text in (
        "parts of the host (no host was looked at):",
        "davinci0-7 required /dev/davinci0-7 an accelerator that was asked for",
        "devmm_svm usual /dev/devmm_svm",
        "hccn.conf optional /etc/hccn.conf",
        "leave it out by --without: devmm_svm, dcmi, npu-smi, ascend_install.info, hccn.conf, firmware, add-ons.",
    ):
        assert text in " ".join(said.err.split())


def test_the_page_about_containers_shows_what_is_printed_and_every_part_and_option(capsys):
    page = (ROOT / "docs" / "containers.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ headway container (command .*)\n(.*)$", page, re.MULTILINE)
    assert len(shown) == 2
    for line, printed in shown:
        said = _said(capsys, line, 2 if printed.startswith("Error: ") else 0)
        assert (said.out or said.err).splitlines()[0] == printed
        assert all(each.rstrip() in page for each in said.err.splitlines())
    assert all(part.name in page for profile in PROFILES.values() for part in profile.parts)
    options = {option for verb in (command, create) for each in verb.params for option in each.opts if option[0] == "-"}
    assert all(option in page for option in options)


def test_a_part_can_be_left_out(capsys):
    without = " ".join(f"--without {name}" for name in ("hccn.conf", "firmware", "add-ons"))
    said = _said(capsys, f"command {ASCEND} --devices 0-15 {without}")
    for name in ("hccn.conf", "firmware", "add-ons"):
        assert name not in said.out + said.err
    assert "/dev/davinci15" in said.out


def test_json_is_one_document(capsys):
    said = _said(capsys, f"command {NVIDIA} --devices 0,2 --via cdi --json -- python train.py")
    found = json.loads(said.out)
    assert said.err == ""
    assert shlex.split(found["line"]) == found["argv"]
    assert found["argv"][-3:] == ["torch:2.13", "python", "train.py"]
    assert [(part["name"], part["need"], part["target"]) for part in found["parts"]] == [
        ("infiniband", "optional", "/dev/infiniband")
    ]
    assert found["spec"]["gpus"] == {"access": "cdi", "ids": [0, 2]}


def test_every_option_reaches_the_line(capsys):
    options = (
        "--network bridge --publish 8080:80 --shm-size 1GiB --device /dev/fuse --user 1000:1000 --env A='b c' "
        "--mount /data:/in:ro --workdir /in"
    )
    said = _said(capsys, f"command --profile cpu --image busybox:1 --name job {options} -- sh -c 'echo $A'")
    for word in (
        "--network=bridge",
        "--publish=8080:80/tcp",
        "--ipc=private",
        "--shm-size=1073741824",
        "--device=/dev/fuse",
        "--user=1000:1000",
        "--env=A=b c",
        "--mount=type=bind,source=/data,target=/in,readonly",
        "--workdir=/in",
    ):
        assert word in shlex.split(said.out)
    assert shlex.split(said.out)[-3:] == ["sh", "-c", "echo $A"]


def test_a_privileged_container_is_warned_of(capsys):
    said = _said(capsys, f"command {ASCEND} --privileged")
    assert "--privileged" in shlex.split(said.out)
    assert "--device=" not in said.out
    assert "accelerators are not kept apart from other containers" in " ".join(said.err.split())


@pytest.mark.parametrize("terminal", [True, False])
def test_the_terminal_can_be_told(capsys, terminal):
    option = "--terminal" if terminal else "--no-terminal"
    words = shlex.split(_said(capsys, f"command {ASCEND} --devices 0 {option}").out)
    assert words[2] == ("-it" if terminal else "-d")
    assert words[-1] == ("bash" if terminal else words[-1])


def test_at_a_terminal_the_line_asks_for_one():
    """Both ends at a terminal: what is copied from there is run there."""
    command = [sys.executable, "-m", "headway", "container", "command", *shlex.split(f"{ASCEND} --devices 0")]
    ours, its = pty.openpty()
    with open(ours, "rb", buffering=0) as reader, open(its, "r+b", buffering=0) as end:
        subprocess.run(command, stdin=end, stdout=end, stderr=subprocess.DEVNULL, check=True, timeout=60)
        said = os.read(reader.fileno(), 65_536).decode()
    assert said.startswith("docker run -it --name=job")
    assert said.rstrip().endswith("cann:8.5 bash")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("comand", "no verb of container is called 'comand'. Did you mean 'command'?"),
        (f"command {ASCEND}", "--devices is missing, and this verb does not look at a host."),
        (f"command {ASCEND} --devices 7-0", "'7-0' is no list of devices. Write it like 0-7 or 0,2,4-5."),
        (f"command {ASCEND} --devices 0 --publish 22:22", "--publish 22:22 does nothing with --network host"),
        (f"command {ASCEND} --devices 0 --privileged", "--privileged shows a container every device of the host"),
        (
            f"command {ASCEND} --devices 0 --ipc host --shm-size 1GiB",
            "--shm-size 1.00 GiB does nothing with --ipc host",
        ),
        (f"command {ASCEND} --devices 0 --shm-size lots", "'lots' is not a number of bytes"),
        (f"command {ASCEND} --devices 0 --mount /:/host", "headway container has --allow-dangerous-mounts"),
        (f"command {ASCEND} --devices 0 --mount .:/work", "is '.', which is not absolute"),
        (f"command {ASCEND} --devices 0 --without drivr", "Did you mean 'driver'?"),
        (f"command {ASCEND} --devices 0 --env ASCEND_VISIBLE_DEVICES=0", "ASCEND_VISIBLE_DEVICES is for"),
        ("command --profile ascend --image i --name job --devices 0 --via cdi", "Its ways: devices, runtime."),
        ("command --profile ascent --image i --name job", "'ascent' is not one of"),
        ("command --profile cpu --image i --name --privileged", "'--privileged' is no name of a container"),
        ("command --profile cpu --image=-v/:/host --name job", "'-v/:/host' is no name of an image"),
        ("command --profile cpu --image i --name 'job;reboot'", "'job;reboot' is no name of a container"),
        ("exec job", "a shell needs a terminal. Name a command: headway container exec job -- ls /dev"),
        ("create --profile cpu --image i --name job --mount /nowhere:/x", "there is no /nowhere on this host"),
        ("create --profile cpu --image i --name job --host-root x", "--host-root is 'x', which is not absolute"),
        ("create --profile cpu --image i --name job --ipc private", "--ipc private alone leaves 64 MB"),
    ],
)
def test_a_users_mistake_exits_2_with_one_message(capsys, line, said):
    printed = _said(capsys, line, 2)
    assert printed.out == ""
    assert said in " ".join(printed.err.split())
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("profile", ["ascend", "nvidia"])
def test_a_host_without_accelerators_is_told_so(capsys, profile, tmp_path):
    line = f"create --profile {profile} --image i --name job --host-root {tmp_path}"
    assert "no accelerator, or no driver" in _said(capsys, line, 2).err


@pytest.mark.parametrize(
    "line",
    [
        "create --profile cpu --image i --name job",
        "images",
        "list",
        "list --json",
        "start job",
        "stop job",
        "exec job -- ls",
        "logs job",
        "remove job",
    ],
)
def test_where_no_engine_listens_the_job_fails_with_one_message(capsys, line):
    printed = _said(capsys, line, 1)
    assert printed.out == ""
    assert printed.err.startswith("Error: no engine listens at unix:///")
    assert len(printed.err.splitlines()) == 1


def test_the_help_of_each_verb_has_an_example(capsys):
    for verb in ("command", "create", "list", "images", "start", "stop", "exec", "logs", "remove"):
        said = _said(capsys, f"{verb} --help")
        assert f"headway container {verb}" in said.out.partition("Example:")[2]


def test_help_and_line_import_no_docker_package():
    code = (
        "import sys; from headway.cli.main import main\n"
        "main(['container', 'command', '--profile', 'cpu', '--image', 'i', '--name', 'job'])\n"
        "heavy = {'docker', 'requests', 'numpy', 'pydantic', 'yaml'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)


_OPTIONS = (
    "name",
    "image",
    "devices",
    "mount",
    "workdir",
    "env",
    "without",
    "network",
    "publish",
    "shm-size",
    "device",
    "user",
)
_TYPED = st.one_of(
    st.text(st.characters(exclude_categories=[]), max_size=10),
    st.sampled_from(
        ["--privileged", "-v", "/:/h", "/a:/b", "A=$(id)", "0-7", "1GiB", "80:80", "bridge", "a\nb", "../x", "'", "job"]
    ),
)


@given(st.dictionaries(st.sampled_from(_OPTIONS), _TYPED), st.lists(_TYPED, max_size=3))
@settings(max_examples=200)
def test_whatever_is_typed_becomes_itself_or_is_refused(options, words):
    typed = {"image": "image:1", "name": "job", "devices": "0", **options}
    line = ["container", "command", "--profile", "ascend", *(f"--{key}={value}" for key, value in typed.items())]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*line, "--", *words])
    if status == 2:
        assert out.getvalue() == ""
        assert err.getvalue()
        return
    assert status == 0
    found = shlex.split(out.getvalue())
    assert found[:3] == ["docker", "run", "-d"]
    end = found.index(typed["image"])
    assert all(word.startswith("--") for word in found[3:end])
    assert "--privileged" not in found[3:end]
    assert found[end + 1 :] == (words or list(IDLE))
