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
