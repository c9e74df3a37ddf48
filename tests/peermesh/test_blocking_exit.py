"""The end of a process: Ctrl-C, endpoints that were left open, and no noise."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from peermesh import blocking
from peermesh.testing.time_limits import limit

IMPORTS = """
import os, signal, sys, threading
from peermesh.blocking import Endpoint

def interrupt_soon(*when):
    # Sends Ctrl-C to this process once the main thread waits.
    def run():
        for is_time in when:
            while not is_time():
                threading.Event().wait(0.001)
            os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=run, daemon=True).start()

signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", IMPORTS + script]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit())


def test_ctrl_c_ends_any_call_and_the_endpoint_goes_on() -> None:
    done = run("""
endpoint = Endpoint()
subscriber, events = endpoint.subscribe("/t", local=True), endpoint.subscribe_status()
clone = endpoint.attach_clone("no master", mutation_buffer_interval=None)
receipt = clone.put("k", 1)

def waits():
    frame = sys._current_frames()[threading.main_thread().ident]
    return is_begun and frame.f_code.co_name in ("wait", "_wait")

for call in (
    lambda: endpoint.await_peer(bytes(16), None),
    lambda: endpoint.peer("127.0.0.1", 1, timeout=None),
    lambda: endpoint.await_subscribed("/another", timeout=None),
    lambda: clone.await_idle(None),
    subscriber.get,
    events.get,
    receipt.result,
):
    is_begun = False
    events.poll()
    interrupt_soon(waits)
    try:
        is_begun = True
        while True:
            call()
    except KeyboardInterrupt:
        print("interrupted")
    endpoint.publish("/t", 1)
    print(subscriber.get(20).data, endpoint._life.room._calls)
endpoint.shutdown(0)
""")
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n1 {}\n" * 7, "", 0)


def test_ctrl_c_twice_ends_a_process_that_shuts_down() -> None:
    # A clone whose mutations wait for a master for ever, and an end that waits for them for hours.
    done = run("""
endpoint = Endpoint()
clone = endpoint.attach_clone("no master", mutation_buffer_interval=None)
clone.put("k", 1)
is_begun = False
interrupt_soon(lambda: is_begun, lambda: endpoint._life.is_closing)
try:
    try:
        is_begun = True
        threading.Event().wait()
    finally:
        endpoint.shutdown(10_000)
except KeyboardInterrupt:
    print("interrupted")
""")
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n", "", 0)


@pytest.mark.parametrize("ending", ["", "sys.exit(0)"])
def test_endpoints_left_open_are_no_trouble(ending: str) -> None:
    with blocking.Endpoint() as other, other.subscribe("/t") as subscriber:

        def read() -> None:
            # What was published last had the time to leave.
            while subscriber.get(limit()).data != 19_999:
                pass

        reader = threading.Thread(target=read)
        reader.start()
        done = run(f"""
endpoint = Endpoint()
assert endpoint.peer("127.0.0.1", {other.listen()})
assert endpoint.await_subscribed("/t")
subscriber = endpoint.subscribe("/t")
reader = threading.Thread(target=subscriber.get, daemon=True)
endpoint.await_peer(endpoint, lambda outcome: None, 0)
for number in range(20_000):
    endpoint.publish("/t", number)
{ending}
""")
        assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
        reader.join(limit())
        assert not reader.is_alive()


def test_a_signal_that_ends_a_process_is_not_held_up() -> None:
    script = IMPORTS + "endpoint = Endpoint()\nprint('open', flush=True)\nthreading.Event().wait()"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(limit()) == -signal.SIGTERM
