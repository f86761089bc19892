import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from precog.errors import CancelledError, LimitError
from precog.server import writers
from precog.server.principal import SCOPES, Principal
from precog.server.services import Services
from precog.server.talking import talk
from precog.server.writers import Writers
from precog.session import SessionOptions

FOLDER = Path("memory")


def test_writers_of_one_folder_come_one_after_the_other_in_turn() -> None:
    line, order, inside = Writers(), [], threading.Semaphore(1)
    entered, go_on = threading.Event(), threading.Event()

    def write(number: int) -> None:
        with line.turn(FOLDER, threading.Event()):
            assert inside.acquire(blocking=False)
            order.append(number)
            entered.set()
            assert go_on.wait(300)
            inside.release()

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(write, 0)]
        assert entered.wait(300)
        for number in range(1, 8):
            futures.append(pool.submit(write, number))
            while len(line._lines[FOLDER]) <= number:
                threading.Event().wait(0.001)
        go_on.set()
        for future in futures:
            future.result()
    assert order == list(range(8))
    assert line._lines == {}


def test_folders_have_lines_of_their_own() -> None:
    line = Writers()
    with line.turn(FOLDER, threading.Event()), line.turn(Path("other"), threading.Event()):
        assert len(line._lines) == 2


def test_whoever_goes_while_waiting_leaves_the_line() -> None:
    line, gone = Writers(), threading.Event()
    gone.set()
    with line.turn(FOLDER, threading.Event()):
        with pytest.raises(CancelledError), line.turn(FOLDER, gone):
            raise AssertionError
        assert len(line._lines[FOLDER]) == 1


@pytest.mark.parametrize(("name", "value"), [("MOST_WAITING", 0), ("LONGEST_SEC", 0.0)])
def test_a_line_that_is_too_long_or_does_not_move_is_left(
    name: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, name, value)
    line = Writers()
    with line.turn(FOLDER, threading.Event()):
        with pytest.raises(LimitError) as refused, line.turn(FOLDER, threading.Event()):
            raise AssertionError
        assert refused.value.retry_after_sec == 5.0
    assert line._lines == {}


def test_whoever_says_something_and_goes_leaves_the_line(services: Services) -> None:
    principal, gone = Principal("local", frozenset(SCOPES)), threading.Event()
    folder = services.tenant(principal).memory
    model = services.model(principal, gone)
    gone.set()
    with (
        services.writers.turn(folder, threading.Event()),
        pytest.raises(CancelledError),  # not LimitError, which comes to whoever waits to the end
    ):
        talk(services, principal, model, "I moved to Lisbon.", SessionOptions(), cancelled=gone)
