"""Hosts that start, fail, are silent, go away and are ended: what is said, and that nothing is left running."""

import _thread
import json
import os
import resource
import signal
import sys
import threading
import time
import uuid

import pytest

from headway.errors import JobError, PlanError
from headway.launch import hosts as running
from headway.launch import ssh
from headway.launch.hosts import Command, start
from headway.launch.launch_plan import HostLaunch
from headway.units import Seconds
from tests.launch.agents import answers, deaf, fake_ssh, processes

SOON = Seconds(15.0)


@pytest.fixture
def mark():
    """A word that every process of a test has on its command line; none may be left at the end."""
    word = f"mark-{uuid.uuid4().hex}"
    yield word
    until = time.monotonic() + 5
    while processes(word) and time.monotonic() < until:
        time.sleep(0.05)
    assert not processes(word)


@pytest.fixture(autouse=True)
def _signals():
    """`start` makes SIGTERM an interrupt of its process, here the test runner."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run" / "log").mkdir(parents=True)
    return tmp_path


def here(mark, *words, host="a"):
    """A host on this machine."""
    return Command(host, (*words, mark))


def there(mark, host, *words, variables=()):
    """A host behind ssh."""
    return ssh.command(HostLaunch(host, 0, (0, 1), (*words, mark), tuple(variables), "/"))


def begin(folder, *commands, within=SOON):
    said = []
    job = start(commands, folder / "run", 2, lambda host, line: said.append((host, line)), within)
    return job, said


def wait(job, timeout=30):
    until = time.monotonic() + timeout
    while job.running:
        assert time.monotonic() < until, "the job does not end"
        time.sleep(0.02)


def test_hosts_that_end_well_are_a_job_that_ended_well_and_what_they_say_is_kept(folder, mark):
    job, said = begin(folder, here(mark, *answers(0), host="a"), here(mark, *answers(0, 0.3), host="b"))
    wait(job)
    assert (job.status, job.asked_to_stop) == (0, False)
    assert sorted(said) == [("a", "the last words"), ("b", "the last words")]
    assert [(folder / "run" / "log" / f"host-{i}.log").read_text() for i in (0, 1)] == ["the last words\n"] * 2


def test_one_that_fails_ends_the_others(folder, mark, monkeypatch):
    monkeypatch.setattr(running, "PEERS", Seconds(0.5))
    job, _ = begin(folder, here(mark, *answers(), host="a"), here(mark, *answers(3, 0.3), host="b"))
    began = time.monotonic()
    wait(job)
    assert time.monotonic() - began < 10
    assert job.status == 3
    assert not job.asked_to_stop


def test_who_fails_first_has_a_while_in_which_its_peers_say_where_they_were(folder, mark):
    job, _ = begin(folder, here(mark, *answers(1, 0.6), host="a"), here(mark, *answers(4, 0.2), host="b"))
    wait(job)
    assert job.status == 4


def test_asked_to_stop_they_end_with_their_step(folder, mark):
    job, _ = begin(folder, here(mark, *answers(), host="a"), here(mark, *answers(), host="b"))
    job.interrupt()
    assert (job.running, job.status) == (False, 0)
    assert (folder / "run" / "log" / "told-to-stop").exists()


WAITS = ("sh", "-c", 'echo "headway: agent $$ on x"; read told; read ended; exit 143')  # for peers; deaf to `stop`
FAILS = ("sh", "-c", 'echo "headway: agent $$ on x"; read told; echo "so it ends"; exit 1')


def test_told_to_stop_before_the_first_step_none_waits_for_a_host_that_has_failed(folder, mark, monkeypatch):
    monkeypatch.setattr(running, "PEERS", Seconds(0.5))
    (folder / "run" / "log" / "rank-0.at").write_text("start · making the stages")
    job, _ = begin(folder, here(mark, *WAITS, host="a"), here(mark, *FAILS, host="b"))
    began = time.monotonic()
    job.interrupt()
    assert time.monotonic() - began < 10
    assert job.status == 1


def test_told_to_stop_in_a_step_who_still_saves_is_left_to_that(folder, mark, monkeypatch):
    monkeypatch.setattr(running, "PEERS", Seconds(0.1))
    (folder / "run" / "log" / "rank-0.at").write_text("step 7 · 1F3")
    saves = ("sh", "-c", 'echo "headway: agent $$ on x"; read told; sleep 2; echo "saved"; exit 0')
    job, said = begin(folder, here(mark, *saves, host="a"), here(mark, *FAILS, host="b"))
    job.interrupt()
    assert ("a", "saved") in said


def test_an_agent_that_fails_before_its_workers_is_quoted(folder, mark):
    job, _ = begin(folder, here(mark, *FAILS, host="b"))
    job._hosts[0].say(b"go\n")
    wait(job)
    assert str(job.failure()) == "host b ended with status 1 before its workers: so it ends"


def test_ended_at_once_none_is_left_even_if_it_is_deaf(folder, mark, monkeypatch):
    monkeypatch.setattr(running, "ENDED_WITHIN", Seconds(0.5))
    job, _ = begin(folder, here(mark, *answers(), host="a"), here(mark, *deaf(), host="b"))
    job.end()
    assert not job.running


def test_the_launchers_own_end_ends_them_by_their_stdin(folder, mark):
    job, _ = begin(folder, here(mark, *answers()))
    for host in job._hosts:
        host.let_go()
    wait(job)
    assert job.asked_to_stop


def test_a_program_that_is_not_here_is_named(folder):
    with pytest.raises(PlanError, match="no-such-program cannot be started here"):
        begin(folder, Command("a", ("no-such-program",)))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (Command("a", ("no-such-program",)), "no-such-program cannot be started here .No such file"),
        (Command("a", ("bin/none",), directory="/"), "bin/none cannot be started here .No such file"),
        (Command("a", ("sh",), directory="/no/such"), "there is no directory /no/such here. Make it, or .* --workdir"),
    ],
)
def test_what_this_machine_lacks_is_known_before_anything_is_made(command, said):
    with pytest.raises(PlanError, match=said):
        running.check(command)


@pytest.mark.parametrize("command", [Command("a", ("sh",)), Command("a", ("./bin/sh",), directory="/")])
def test_a_program_that_is_there_is_found_as_it_will_be_started(command):
    running.check(command)


def test_too_many_hosts_for_the_limit_on_files_are_told_what_to_raise(folder, mark):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 30, limits[1]))
    try:
        with pytest.raises(PlanError, match=r"Too many open files.*Raise the limit on open files .ulimit -n."):
            begin(folder, *(here(mark, *answers(), host=f"h{i}") for i in range(40)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_two_hundred_hosts_start_answer_and_stop(folder, mark):
    obey = ("sh", "-c", 'echo "headway: agent $$ on x"; read word; exit 0')
    job, _ = begin(folder, *(here(mark, *obey, host=f"h{i}") for i in range(200)), within=Seconds(60.0))
    job.interrupt()
    assert (job.running, job.status) == (False, 0)


def test_a_place_that_torchrun_gave_this_process_is_not_the_hosts(folder, mark, monkeypatch):
    monkeypatch.setenv("PET_NNODES", "2")
    job, said = begin(folder, here(mark, "sh", "-c", 'echo "headway: agent $$ on x"; echo "${PET_NNODES:-none}"'))
    wait(job)
    assert said == [("a", "none")]


def test_by_ssh_a_host_runs_its_part_with_secrets_that_no_process_list_shows(folder, mark, monkeypatch):
    for name, value in fake_ssh(folder).items():
        monkeypatch.setenv(name, value)
    show = ("sh", "-c", 'echo "headway: agent $$ on x"; echo "$A $HF_TOKEN"')
    job, said = begin(folder, there(mark, "a", *show, variables=[("A", "b c"), ("HF_TOKEN", "hush 'd")]))
    wait(job)
    assert said == [("a", "b c hush 'd")]
    assert "hush" not in (folder / "lines").read_text()


def test_half_the_hosts_down_all_of_them_are_named_and_nothing_runs(folder, mark, monkeypatch):
    for name, value in fake_ssh(folder, c="refused", d="unknown").items():
        monkeypatch.setenv(name, value)
    hosts = [there(mark, host, *answers()) for host in "abcd"]
    with pytest.raises(JobError) as failed:
        begin(folder, *hosts)
    assert str(failed.value).splitlines() == [
        "2 of 4 hosts did not start, so nothing runs:",
        "  c: ssh ended with status 255: ssh: connect to host c port 22: Connection refused",
        "  d: ssh ended with status 255: Host key verification failed. (log in once by hand and accept the host's key, "
        "or put it into known_hosts)",
    ]


def test_a_silent_host_is_given_up_in_time(folder, mark, monkeypatch):
    monkeypatch.setattr(running, "ENDED_WITHIN", Seconds(0.5))
    for name, value in fake_ssh(folder, b="silent").items():
        monkeypatch.setenv(name, value)
    began = time.monotonic()
    with pytest.raises(
        JobError, match=r"1 of 2 hosts did not start.*\n  b: no answer for 2 s\n  host b did not confirm"
    ):
        begin(folder, there(mark, "a", *answers()), there(mark, "b", *answers()), within=Seconds(2.0))
    assert time.monotonic() - began < 15


def test_a_host_without_the_program_says_so(folder, mark, monkeypatch):
    for name, value in fake_ssh(folder).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        JobError,
        match=r"the host did not start, so nothing runs:\n  a: ended with status 127: .*python9.* .give --python",
    ):
        begin(folder, there(mark, "a", "/opt/python9", "-m", "headway.train.agent"))


def test_a_host_without_the_work_directory_or_headway_is_told_what_to_give(folder, mark, monkeypatch):
    for name, value in fake_ssh(folder).items():
        monkeypatch.setenv(name, value)
    without = (sys.executable, "-S", "-P", "-m", "headway.train.agent")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    place = HostLaunch("b", 1, (0, 1), ("true", mark), (), "/no/such")
    with pytest.raises(JobError) as failed:
        begin(folder, there(mark, "a", *without), ssh.command(place))
    first, second = str(failed.value).splitlines()[1:]
    assert first.endswith(
        "No module named 'headway') (give the --python of an environment with Headway that all hosts have)"
    )
    assert second.endswith("(all hosts must share the work directory: give --workdir)")


def test_a_host_that_is_lost_ends_the_job_and_is_named(folder, mark, monkeypatch):
    monkeypatch.setattr(running, "PEERS", Seconds(0.5))
    for name, value in fake_ssh(folder, b="lost").items():
        monkeypatch.setenv(name, value)
    job, _ = begin(folder, there(mark, "a", *answers()), there(mark, "b", *answers()))
    wait(job)
    assert str(job.failure()).startswith(
        "host b was lost (Timeout, server b not responding.), and the job was ended on a."
    )


def test_a_deaf_host_is_killed_by_a_connection_of_its_own(folder, mark, monkeypatch):
    monkeypatch.setattr(running, "ENDED_WITHIN", Seconds(0.5))
    for name, value in fake_ssh(folder).items():
        monkeypatch.setenv(name, value)
    job, _ = begin(folder, there(mark, "a", *deaf()))
    (agent,) = [host.agent for host in job._hosts]
    job.end()
    assert (folder / "lines").read_text().splitlines()[-1] == f"a: kill -s KILL -- -{agent} {agent}"
    assert not job._doubts


def test_what_a_rank_left_says_who_failed(folder, mark):
    log = folder / "run" / "log"
    (log / "failures-1.json").write_text(json.dumps({"1": {"pid": 7, "exitcode": -9}}))
    (log / "rank-1.at").write_text("step 7 · 1F3")
    job, _ = begin(folder, here(mark, *answers(0), host="a"), here(mark, *answers(1), host="b"))
    wait(job)
    assert str(job.failure()).startswith("rank 1 was killed by SIGKILL at step 7 · 1F3.")


def test_lines_that_would_change_a_terminal_are_shown_without_that(folder, mark):
    show = ("sh", "-c", 'echo "headway: agent $$ on x"; printf "\\033[31mred\\007\\n"')
    job, said = begin(folder, here(mark, *show))
    wait(job)
    assert said == [("a", "[31mred")]


def test_a_banner_without_an_end_of_line_hides_no_answer(folder, mark):
    job, said = begin(folder, here(mark, "sh", "-c", 'printf "Welcome! "; echo "headway: agent $$ on x"'))
    wait(job)
    assert (job.status, said) == (0, [("a", "Welcome!")])


def test_what_never_ends_its_line_and_is_no_text_is_shown_in_pieces(folder, mark):
    flood = 'echo "headway: agent $$ on x"; head -c 100000 /dev/zero | tr "\\0" x; printf "\\377\\n"'
    job, said = begin(folder, here(mark, "sh", "-c", flood))
    wait(job)
    assert "".join(line for _, line in said) == "x" * 100_000 + "\N{REPLACEMENT CHARACTER}"
    assert max(len(line) for _, line in said) == running.LONGEST


def test_a_host_goes_on_when_nobody_reads_what_is_shown_of_it(folder, mark):
    def show(host, line):
        raise BrokenPipeError

    words = ("sh", "-c", 'echo "headway: agent $$ on x"; yes | head -n 100000; exit 3', mark)
    job = start([Command("a", words)], folder / "run", 2, show, SOON)
    wait(job)
    assert job.status == 3
    assert (folder / "run" / "log" / "host-0.log").stat().st_size == 200_000


def test_hosts_that_do_not_answer_are_killed_side_by_side(folder, mark, monkeypatch):
    monkeypatch.setattr(running, "ENDED_WITHIN", Seconds(0.5))
    slow = [Command(f"h{i}", ("sleep", "300"), kill=lambda _: ("sleep", "2")) for i in range(10)]
    began = time.monotonic()
    with pytest.raises(JobError, match="10 of 10 hosts did not start"):
        begin(folder, *slow, within=Seconds(0.1))
    assert time.monotonic() - began < 12


def test_waiting_for_answers_is_interrupted_and_leaves_nothing(folder, mark, monkeypatch):
    monkeypatch.setattr(running, "ENDED_WITHIN", Seconds(0.5))
    timer = threading.Timer(1.0, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        begin(folder, Command("a", ("sh", "-c", "sleep 300", mark)), within=Seconds(60.0))
    timer.join()
