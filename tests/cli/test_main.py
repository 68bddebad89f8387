"""The command: what it lists, what it refuses and how, and its exit statuses."""

import signal
import subprocess
import sys
import time

import pytest

from headway.cli.main import main


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def test_help_lists_the_verbs_and_imports_nothing_heavy():
    code = (
        "import sys; from headway.cli.main import main; status = main(['--help'])\n"
        "heavy = {'rich', 'pydantic', 'numpy', 'yaml', 'headway.plan', 'headway.schedule'} & set(sys.modules)\n"
        "assert not heavy, heavy; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    for verb in ("plan", "simulate", "schedule", "train", "generate", "compare", "validate"):
        assert f"\n  {verb} " in done.stdout


def test_the_module_runs_as_the_command_does():
    command = [sys.executable, "-m", "headway", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("headway ")


@pytest.mark.parametrize("verb", ["plan", "simulate", "schedule", "train", "generate", "compare", "validate"])
def test_the_help_of_each_verb_has_an_example(verb, capsys):
    assert main([verb, "--help"]) == 0
    assert f"headway {verb} " in capsys.readouterr().out.partition("Example:")[2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plam x", "no verb is called 'plam'. Did you mean 'plan'?"),
        ("plan job.yaml --outptu x", "--output"),
        ("plan", "JOB"),
        ("plan none.yaml", "there is no file none.yaml"),
        ("schedule 1f1c --pipeline 4 --microbatches 8", "Did you mean '1f1b'?"),
        ("schedule 1f1b --pipeline 4", "--microbatches"),
        ("schedule 1f1b --pipeline 4 --microbatches 8 --csv --json", "Use one of them"),
    ],
)
def test_a_users_mistake_exits_2_with_one_message_on_stderr(line, said, capsys):
    assert main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert "Traceback" not in printed.err


def test_an_interrupt_exits_130_without_a_traceback():
    command = [sys.executable, "-m", "headway", "schedule", "1f1b", "--pipeline=64", "--microbatches=2000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(1.0)  # it is at work by then, for many seconds
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip() == "Interrupted."


@pytest.mark.parametrize("form", ["--csv", "--json", "--chunks=1"])
def test_a_reader_that_stops_reading_is_no_error_to_talk_about(form):
    command = [sys.executable, "-m", "headway", "schedule", "gpipe", "--pipeline=16", "--microbatches=64", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=30) in {0, 1}
