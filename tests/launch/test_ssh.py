"""A host's part as a line for ssh: a golden one, hostile words that stay words, secrets that no line shows."""

import json
import shlex
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.launch import ssh
from headway.launch.launch_plan import HostLaunch

# what the nouns let through: no control characters
WORDS = st.text(st.characters(blacklist_categories=("Cc", "Cs")))
SHOW = """
import json, os, sys
print(json.dumps([sys.argv[1:], os.environ.get("A"), os.environ.get("MY_TOKEN"), os.getcwd()]))
"""


def launch(*arguments, environment=(), directory="/work"):
    return HostLaunch("root@node1", 0, (0, 8), tuple(arguments), tuple(environment), directory)


def test_the_golden_line():
    host = launch(
        "/usr/bin/python3", "-m", "headway.train.agent", "/work/run", "8", "0", "stdin", environment=[("A", "b c")]
    )
    assert ssh.words(host) == (
        "ssh",
        "-T",
        "-o",
        "BatchMode=yes",
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "ConnectTimeout=10",
        "-o",
        "ServerAliveInterval=5",
        "-o",
        "ServerAliveCountMax=3",
        "--",
        "root@node1",
        "exec sh -c 'cd -- /work && exec env '\"'\"'A=b c'\"'\"' "
        "/usr/bin/python3 -m headway.train.agent /work/run 8 0 stdin'",
    )


def test_secrets_go_through_stdin_and_are_masked_where_they_are_shown():
    proxy = ("http_proxy", "http://me:hush@proxy")
    host = launch("python", environment=[("A", "b"), ("HF_TOKEN", "hush"), ("MY_KEY", "hush2"), proxy])
    command = ssh.command(host)
    assert command.first == b"hush\nhush2\nhttp://me:hush@proxy\n"
    assert "hush" not in " ".join(command.words) + ssh.shown(host)
    assert ssh.shown(host).endswith("# stdin: HF_TOKEN=****  # stdin: MY_KEY=****  # stdin: http_proxy=****")


@given(st.lists(WORDS, min_size=1), WORDS, WORDS)
def test_words_are_the_same_after_both_shells_have_split_them(arguments, value, directory):
    host = launch("python", *arguments, environment=[("A", value)], directory=f"/{directory}")
    outer = shlex.split(ssh.script(host))
    assert outer[:3] == ["exec", "sh", "-c"]
    (inner,) = outer[3:]
    assert shlex.split(inner) == ["cd", "--", f"/{directory}", "&&", "exec", "env", f"A={value}", "python", *arguments]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(WORDS | st.sampled_from(["$(touch x)", "`touch x`", "; touch x", "'", '"', "\\", "!!", "*", "~", "&& x"])),
    WORDS,
    WORDS,
)
def test_nothing_is_executed_but_the_agent(tmp_path_factory, arguments, value, secret):
    folder = tmp_path_factory.mktemp("host's $(place)")
    host = launch(
        sys.executable,
        "-c",
        SHOW,
        *arguments,
        environment=[("A", value), ("MY_TOKEN", secret)],
        directory=str(folder),
    )
    command = ssh.command(host)
    # what sshd does with the last word; the environment of a C locale passes any bytes
    done = subprocess.run(
        ["sh", "-c", command.words[-1]], input=command.first, capture_output=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == [arguments, value, secret, str(folder)]
    assert not list(folder.iterdir())


@pytest.mark.parametrize("agent", [0, 1])
def test_no_number_that_means_every_process_is_killed(agent):
    assert ssh.kill("node1", agent) == ()


@pytest.mark.parametrize("agent", [2, 4711])
def test_the_agents_process_group_is_what_is_killed(agent):
    assert ssh.kill("node1", agent)[-2:] == ("node1", f"kill -s KILL -- -{agent} {agent}")
