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
def test_what_queues_and_terminals_send_is_remembered_and_can_be_polled(number):
    number = getattr(signal, number)
    before = signal.getsignal(number)
    with stop.interruptible() as interrupted:
        interrupted.poll()
        os.kill(os.getpid(), number)
        time.sleep(0.01)
        assert interrupted()
        with pytest.raises(stop.StoppedError):
            interrupted.poll()
    assert signal.getsignal(number) == before


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
