import os
import signal
import time

import pytest

from hrac.training import stop


def test_a_second_interruption_is_immediate():
    with stop.interruptible() as interrupted:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (the signal may arrive in either line)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_what_queues_and_terminals_send_is_remembered(number):
    number = getattr(signal, number)
    before = signal.signal(number, signal.SIG_DFL)  # whoever started the tests may ignore it
    try:
        with stop.interruptible() as interrupted:
            os.kill(os.getpid(), number)
            time.sleep(0.01)
            assert interrupted()
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_third_interruption_does_not_disturb_the_second():
    with stop.interruptible() as interrupted:
        interrupted.remember(signal.SIGINT, None)
        with pytest.raises(KeyboardInterrupt):
            interrupted.remember(signal.SIGINT, None)
        interrupted.remember(signal.SIGINT, None)


def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop.interruptible() as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)


def _size(number):
    return lambda: float(number)


def test_a_deadline_leaves_time_for_another_round_and_a_save(monkeypatch):
    now, size = [100.0], [1_000.0]
    monkeypatch.setattr(stop.time, "monotonic", lambda: now[0])
    deadline = stop.Deadline(1.0, lambda: size[0], rounds=2)

    def asked_after(seconds):
        now[0] += seconds
        return deadline()

    assert not asked_after(0.0)
    assert not any(asked_after(seconds) for seconds in (0.5, 5.0, 3.0))
    with deadline.measuring_save():
        now[0] += 10.0  # 18.5 s of 60 are over; a save is no part of a round
    assert not asked_after(15.0)  # 33.5 s are over, a round of 15 and a save of 10 may follow
    assert not asked_after(1.0)  # 34.5 + 15 + 10
    assert not asked_after(1.0)  # the 15 s are forgotten: 35.5 + 1 + 10
    size[0] = 2_000.0  # a checkpoint is twice as large
    assert not asked_after(1.0)  # 36.5 + 1 + 20
    size[0] = 2_400.0
    assert asked_after(1.0)  # 37.5 + 1 + 24


def test_a_deadline_stops_where_the_longest_of_the_last_rounds_would_not_fit(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stop.time, "monotonic", lambda: now[0])
    deadline, answers = stop.Deadline(1.0, _size(1), rounds=4), []
    for seconds in (0.0, 20.0, 10.0, 9.9, 0.2):
        now[0] += seconds
        answers.append(deadline())
    assert answers == [False, False, False, False, True]  # 39.9 + 20 fits, 40.1 + 20 does not


def test_what_was_compiled_in_a_round_is_not_expected_again(monkeypatch):
    now, compiled = [0.0], [5.0]
    monkeypatch.setattr(stop.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(stop, "seconds_compiling", lambda: compiled[0])
    deadline, answers = stop.Deadline(1.0, _size(1), rounds=4), []
    for seconds, compiling in ((0.0, 0.0), (35.0, 33.0), (20.0, 0.0), (4.0, 0.0)):
        now[0], compiled[0] = now[0] + seconds, compiled[0] + compiling
        answers.append(deadline())
    assert answers == [False, False, True, True]  # 35 + 2 fits, 55 + 20 does not


def test_without_minutes_only_an_interruption_stops():
    assert not stop.Deadline(None, _size(10**9))()
    asked = stop.Deadline(None, _size(0), lambda: True)
    assert asked()
    with pytest.raises(stop.StoppedError):
        asked.poll()
    stop.Deadline(None, _size(0), lambda: False).poll()


@pytest.mark.parametrize(("reading", "too_late"), [(8.0, False), (9.0, True)])
def test_writing_a_checkpoint_may_take_six_times_as_long_as_reading_it(reading, too_late, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stop.time, "monotonic", lambda: now[0])
    resumed = stop.Deadline(1.0, _size(1_000))
    with resumed.measuring_save(reading=True):
        now[0] += reading  # 8 + 48 s, or 9 + 54
    assert resumed() is too_late
