"""The error tree: whose mistake, which exit status, and the hint that ends a message."""

import pytest

from headway.errors import HeadwayError, JobError, PlanError, ScheduleError, nearest


@pytest.mark.parametrize(("kind", "status"), [(HeadwayError, 1), (PlanError, 2), (ScheduleError, 2), (JobError, 1)])
def test_each_error_carries_the_exit_status_of_whose_mistake_it_was(kind, status):
    assert kind("message").exit_status == status
    assert issubclass(kind, HeadwayError)


def test_a_wrong_schedule_is_the_users_mistake():
    assert issubclass(ScheduleError, PlanError)


def test_a_near_word_gets_one_suggestion():
    assert nearest("microbach", ["steps", "microbatch"]) == "Did you mean 'microbatch'?"


def test_a_far_word_gets_all_that_are_known_in_their_order():
    assert nearest("qqq", ("steps", "microbatch")) == "Known: steps, microbatch."


def test_of_very_many_words_some_are_listed_and_the_others_counted():
    hint = nearest("qqq", [f"core-{n}" for n in range(100)])
    assert hint.startswith("Known: core-0, core-1, ")
    assert hint.endswith(", core-31 and 68 more.")


def test_the_known_words_may_come_from_an_iterator():
    assert nearest("qqq", iter(["a", "b"])) == "Known: a, b."
