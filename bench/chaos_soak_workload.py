"""The program of `chaos_soak.py`, run in the measured interpreter: the loads of `policy_soak_workload.py`, and more.

The arguments are the seconds in all, the seconds between two reports, the helper library (or empty), and the folder of
Headway's package (or empty: then policies are changed from outside). The exit code is 42 if nothing was wrong.
"""

import ctypes
import os
import signal
import sys
import threading
import time

import policy_soak_workload as soak

CODE = 42
CROWD = 200
POLICIES = ("fair", "priority", "bfs", "stock")
worst = [0.0]
delivered = [0]


def start_more(helper, package):
    """Start the loads that the other soak does not have."""
    if helper:
        library = ctypes.CDLL(helper)

        @soak.load(pause_s=0.5)
        def forks_from_c():
            soak.expect(library.fork_in_threads(), 0, "children of C threads that ended wrongly")

    if package:
        sys.path.append(package)
        import headway

        @soak.load(pause_s=0.2)
        def changes_policies():
            for policy in POLICIES:
                with headway.schedule(policy) as on:
                    soak.stop.wait(0.3)
                    soak.expect(on.policy, policy, "the policy")

    @soak.load(pause_s=0.5)
    def crowds():
        numbers, lock = [], threading.Lock()

        def one(number):
            time.sleep(0.001)
            with lock:
                numbers.append(number)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(CROWD)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(soak.PATIENCE_S)
        soak.expect(sorted(numbers), list(range(CROWD)), "what a crowd did")

    @soak.load(pause_s=0.02)
    def signals():
        before = delivered[0]
        os.kill(os.getpid(), signal.SIGUSR1)
        deadline = time.monotonic() + soak.PATIENCE_S
        while delivered[0] == before:
            if time.monotonic() > deadline:
                raise ValueError("a signal's handler did not run")
            time.sleep(0.001)

    @soak.load()
    def waits():
        before = time.monotonic()
        time.sleep(0.001)
        worst[0] = max(worst[0], time.monotonic() - before - 0.001)

    @soak.load(pause_s=0.05)
    def pipes():
        read_end, write_end = os.pipe()
        try:
            text = b"%020d" % time.monotonic_ns() * 100
            os.write(write_end, text)
            soak.expect(os.read(read_end, len(text)), text, "a pipe's text")
        finally:
            os.close(read_end)
            os.close(write_end)


def main():
    """Run for as long as the arguments say."""
    seconds, every = float(sys.argv[1]), float(sys.argv[2])

    def count(_number, _frame):
        delivered[0] += 1

    signal.signal(signal.SIGUSR1, count)
    begun = reported = time.monotonic()
    soak.start_loads()
    start_more(sys.argv[3], sys.argv[4])
    while time.monotonic() - begun < seconds:
        time.sleep(0.05)  # a signal's handler runs between two of these sleeps
        if time.monotonic() - reported >= every:
            reported = time.monotonic()
            longest, worst[0] = worst[0], 0.0
            soak.report(begun, {"pid": os.getpid(), "worst_wait_s": longest})
    soak.stop.set()
    soak.report(begun, {"pid": os.getpid(), "worst_wait_s": worst[0], "last": True})
    os._exit(1 if soak.wrong else CODE)


main()
