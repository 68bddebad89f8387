"""A look that hangs or breaks is told after its time, and keeps neither the others nor the process."""

import subprocess
import sys
import threading
import time

from headway.launch.doctor.looking.bounded import Look
from headway.launch.doctor.machine import Silent


def test_a_look_that_answers_gives_its_answer():
    silent = []
    assert Look("two", lambda: 2, 5.0).answer() == 2
    assert Look("two", lambda: 2, 5.0).heard(silent) == 2
    assert silent == []


def test_a_look_that_breaks_says_why():
    silent = []
    assert Look("zero", lambda: 1 // 0, 5.0).heard(silent) is None
    assert silent[0].at == "zero"
    assert silent[0].why.startswith("ZeroDivisionError: ")


def test_a_look_that_hangs_is_left_behind_and_time_runs_for_all_at_once():
    hanging = threading.Event()
    begun = time.monotonic()
    looks = [Look(f"disk {i}", hanging.wait, 0.2) for i in range(5)]
    answers = [each.answer() for each in looks]
    assert answers[0] == Silent("disk 0", "it took longer than 200 ms")
    assert all(isinstance(each, Silent) for each in answers)
    assert time.monotonic() - begun < 3
    hanging.set()


def test_a_process_ends_although_a_look_still_hangs():
    code = (
        "import time\nfrom headway.launch.doctor.looking.bounded import Look\n"
        "print(Look('x', lambda: time.sleep(600), 0.1).answer().why)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "it took longer than 100 ms\n"
