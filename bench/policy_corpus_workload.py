"""Runs in the measured interpreter for `policy_corpus.py`: a program of the corpus that needs nobody from outside.

    policy_corpus_workload.py NAME SECONDS [--switch-interval S]

It is one file as it is a list: a program has a dozen lines, and all are looked for here.

Prints a line of JSON: what was done a second (`rate`), CPU time for each piece (`cpu_s`), of those that are timed p50 and p99
(`p50_s`, `p99_s`), what threads that compute did beside (`computed`), and the least thread's part of an even one's (`least`).
"""

import asyncio
import gc
import hashlib
import json
import logging
import os
import queue
import random
import select
import socket
import sqlite3
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor, wait

from policy_corpus_crew_workload import PROGRAMS, Program, program, work

NOWHERE = os.open(os.devnull, os.O_RDWR)
ZEROES = os.open("/dev/zero", os.O_RDONLY)
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]


# ---------------------------------------------------------------- threads that hand each other something


@program("hand-overs")
def p_map(program):
    """A pool of four maps next to nothing over fifty items."""

    def body(counter):
        with ThreadPoolExecutor(4) as pool:
            while True:
                for _ in pool.map(abs, range(50)):
                    counter[0] += 1

    program.add(body)


@program("hand-overs")
def p_submit(program):
    """One piece of work at a time is handed to a pool of four, and waited for."""

    def body(counter):
        with ThreadPoolExecutor(4) as pool:
            while True:
                pool.submit(work, 100).result()
                counter[0] += 1

    program.add(body)


@program("hand-overs")
def p_wait_for_ten(program):
    """Ten pieces at a time."""

    def body(counter):
        with ThreadPoolExecutor(4) as pool:
            while True:
                wait([pool.submit(work, 300) for _ in range(10)])
                counter[0] += 10

    program.add(body)


@program("hand-overs")
def p_pipeline(program):
    """Five threads hand items on through four queues of 16."""
    queues = [queue.Queue(16) for _ in range(4)]

    def source(_):
        while True:
            work(200)
            queues[0].put(1)

    def stage(counter, i):
        while True:
            item = queues[i].get()
            work(200)
            if i + 1 < len(queues):
                queues[i + 1].put(item)
            else:
                counter[0] += 1

    program.helper(source)
    for i in range(len(queues) - 1):
        program.helper(stage, i)
    program.add(stage, len(queues) - 1)


@program("hand-overs")
def p_consumers(program):
    """One producer, eight consumers that work 15 us on an item."""
    items = queue.Queue(100)

    def produce(_):
        while True:
            items.put(1)
            work(300)

    def consume(counter):
        while True:
            items.get()
            counter[0] += 1
            work(300)

    program.helper(produce)
    program.add(consume, times=8)


def queued(program, size, ends):
    """So many producers and consumers at a queue of that size."""
    items = queue.Queue(size)

    def put(_):
        while True:
            items.put(1)

    def get(counter):
        while True:
            items.get()
            counter[0] += 1

    program.helper(put, times=ends)
    program.add(get, times=ends)


@program("hand-overs")
def p_queue_of_1(program):
    """One producer, one consumer, room for one item."""
    queued(program, 1, 1)


@program("hand-overs")
def p_queue_of_16(program):
    """Room for 16."""
    queued(program, 16, 1)


@program("hand-overs")
def p_queue_of_1000(program):
    """Room for 1,000."""
    queued(program, 1000, 1)


@program("hand-overs")
def p_queue_2_and_2(program):
    """Two producers, two consumers."""
    queued(program, 100, 2)


@program("hand-overs")
def p_simple_queue_trips(program):
    """A round trip through two SimpleQueues."""
    there, back = queue.SimpleQueue(), queue.SimpleQueue()

    def ask(counter):
        while True:
            there.put(1)
            back.get()
            counter[0] += 1

    def answer(_):
        while True:
            back.put(there.get())

    program.helper(answer)
    program.add(ask)


@program("hand-overs")
def p_event_trips(program):
    """A round trip by two events."""
    there, back = threading.Event(), threading.Event()

    def ask(counter):
        while True:
            there.set()
            back.wait()
            back.clear()
            counter[0] += 1

    def answer(_):
        while True:
            there.wait()
            there.clear()
            back.set()

    program.helper(answer)
    program.add(ask)


@program("hand-overs")
def p_condition_turns(program):
    """Two threads give each other the turn."""
    condition, turn = threading.Condition(), [0]

    def body(counter, mine):
        while True:
            with condition:
                while turn[0] != mine:
                    condition.wait()
                turn[0] = 1 - mine
                condition.notify()
                counter[0] += 1

    program.add(body, 0)
    program.add(body, 1)


@program("hand-overs")
def p_semaphore(program):
    """Eight threads, of which two may work."""
    semaphore = threading.Semaphore(2)

    def body(counter):
        while True:
            with semaphore:
                work(100)
            counter[0] += 1

    program.add(body, times=8)


@program("hand-overs")
def p_barrier(program):
    """Four threads meet, over and over."""
    barrier = threading.Barrier(4)

    def body(counter):
        while True:
            work(50)
            barrier.wait()
            counter[0] += 1

    program.add(body, times=4)


@program("hand-overs")
def p_lock(program):
    """Four threads work under one lock."""
    lock = threading.Lock()

    def body(counter):
        while True:
            with lock:
                work(50)
            counter[0] += 1

    program.add(body, times=4)


@program("hand-overs")
def p_nested_locks(program):
    """Eight threads take four locks within each other."""
    locks = [threading.RLock() for _ in range(4)]

    def body(counter):
        while True:
            with locks[0], locks[1], locks[2], locks[3]:
                work(20)
            counter[0] += 1

    program.add(body, times=8)


def paired(program, pairs):
    """Pairs of threads that send a byte to and fro."""

    def ask(counter, end):
        while True:
            end.send(b"x")
            end.recv(1)
            counter[0] += 1

    def answer(_, end):
        while True:
            end.send(end.recv(1))

    for _ in range(pairs):
        near, far = socket.socketpair()
        program.helper(answer, far)
        program.add(ask, near)


@program("hand-overs")
def p_socket_pair(program):
    """A byte to and fro between two threads."""
    paired(program, 1)


@program("hand-overs")
def p_socket_pairs_4(program):
    """Four such pairs."""
    paired(program, 4)


@program("hand-overs")
def p_lock_of_a_computing_thread(program):
    """A thread that computes for 5 ms with a lock and 5 ms without, one that needs the lock, and two that compute."""
    lock = threading.Lock()

    def hold(_):
        while True:
            with lock:
                until = time.perf_counter() + 0.005
                while time.perf_counter() < until:
                    work(100)
            until = time.perf_counter() + 0.005
            while time.perf_counter() < until:
                work(100)

    def need(counter):
        while True:
            time.sleep(0.001)
            begun = time.perf_counter()
            with lock:
                pass
            program.times.append(time.perf_counter() - begun)
            counter[0] += 1

    program.helper(hold)
    program.add(need)
    program.compute(2)


# ---------------------------------------------------------------- calls that let the GIL go


def calling(program, call, threads):
    """Threads that call something over and over."""

    def body(counter):
        while True:
            call()
            counter[0] += 1

    program.add(body, times=threads)


@program("calls")
def p_writes(program):
    """A thread of tiny writes."""
    calling(program, lambda: os.write(NOWHERE, b"x"), 1)


@program("calls")
def p_writes_4(program):
    """Four threads of tiny writes."""
    calling(program, lambda: os.write(NOWHERE, b"x"), 4)


@program("calls")
def p_reads_beside_1(program):
    """A thread of short reads beside one that computes."""
    calling(program, lambda: os.read(ZEROES, 64), 1)
    program.compute()


@program("calls")
def p_writes_beside_4(program):
    """A thread of tiny writes beside four that compute."""
    calling(program, lambda: os.write(NOWHERE, b"x"), 1)
    program.compute(4)


def database():
    """Return a small table."""
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a integer, b text)")
    connection.executemany("insert into t values (?, ?)", [(i, str(i)) for i in range(2000)])
    return connection


def scanning(counter):
    """Scan a table of one's own."""
    connection = database()
    while True:
        sum(row[0] for row in connection.execute("select a from t where b like '%7%'"))
        counter[0] += 1


@program("libraries")
def p_sqlite(program):
    """SQLite scans in one thread."""
    program.add(scanning)


@program("libraries")
def p_sqlite_4(program):
    """SQLite scans in four threads."""
    program.add(scanning, times=4)


@program("libraries")
def p_sqlite_beside_1(program):
    """SQLite scans beside a thread that computes."""
    program.add(scanning)
    program.compute()


@program("libraries")
def p_zlib_small_4(program):
    """Four threads that compress 2 KiB."""
    data = os.urandom(2048)
    calling(program, lambda: zlib.compress(data, 1), 4)


@program("libraries")
def p_zlib_large_4(program):
    """Four threads that compress 1 MiB."""
    data = os.urandom(1 << 20)
    calling(program, lambda: zlib.compress(data, 1), 4)


@program("libraries")
def p_sha256_small_4(program):
    """sha256 of 3 KiB, for which the GIL is let go, in four threads."""
    data = bytes(3072)
    calling(program, lambda: hashlib.sha256(data).digest(), 4)


@program("libraries")
def p_sha256_4(program):
    """sha256 of 64 KiB in four threads."""
    data = bytes(65536)
    calling(program, lambda: hashlib.sha256(data).digest(), 4)


@program("libraries")
def p_numpy_small_4(program):
    """Operations on small NumPy arrays in four threads."""
    import numpy as np

    def body(counter):
        array = np.arange(100.0)
        while True:
            np.sqrt(array * 2 + 1).sum()
            counter[0] += 1

    program.add(body, times=4)


@program("libraries")
def p_numpy_large_4(program):
    """Operations on NumPy arrays of a million in four threads."""
    import numpy as np

    def body(counter):
        array = np.arange(1e6)
        while True:
            np.sqrt(array)
            counter[0] += 1

    program.add(body, times=4)


@program("libraries")
def p_joblib(program):
    """Small pieces for the threads of joblib."""
    from joblib import Parallel, delayed

    program.started.clear()

    def body(counter):
        with Parallel(n_jobs=4, backend="threading") as parallel:
            while True:
                parallel(delayed(work)(300) for _ in range(50))
                program.started.set()
                counter[0] += 50

    program.add(body)


@program("libraries")
def p_sklearn(program):
    """A forest of scikit-learn's, whose trees are made in four threads."""
    program.started.clear()

    def body(counter):
        from sklearn.datasets import make_classification
        from sklearn.ensemble import RandomForestClassifier

        x, y = make_classification(400, 10, random_state=1)
        while True:
            RandomForestClassifier(20, n_jobs=4, random_state=1).fit(x, y)
            program.started.set()
            counter[0] += 1

    program.add(body)


@program("libraries")
def p_dask_threads(program):
    """A graph of Dask's, small pieces, four threads."""
    program.started.clear()

    def body(counter):
        import dask

        pieces = [dask.delayed(work)(300) for _ in range(40)]
        total = dask.delayed(sum)(pieces)
        while True:
            total.compute(scheduler="threads", num_workers=4)
            program.started.set()
            counter[0] += 40

    program.add(body)


@program("libraries")
def p_logging_4(program):
    """Four threads that log to a file."""
    handler = logging.FileHandler(os.devnull)
    handler.setFormatter(logging.Formatter("%(asctime)s %(threadName)s %(message)s"))
    log = logging.getLogger("corpus")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    calling(program, lambda: log.info("one %s", "more"), 4)


@program("libraries")
def p_print_4(program):
    """Four threads that print."""
    file = open(os.devnull, "w")  # noqa: SIM115  (open to the end)
    calling(program, lambda: print("hello", file=file, flush=True), 4)


# ---------------------------------------------------------------- who is to be prompt


def sleeping(counter, times):
    """Sleep for 5 ms at a time, and note how late it was."""
    while True:
        until = time.perf_counter() + 0.005
        time.sleep(0.005)
        times.append(time.perf_counter() - until)
        counter[0] += 1


@program("latency")
def p_sleepers_8(program):
    """Eight that sleep, nobody computes."""
    program.add(sleeping, program.times, times=8)


@program("latency")
def p_sleepers_8_beside_1(program):
    """Eight that sleep beside one that computes."""
    program.add(sleeping, program.times, times=8)
    program.compute()


@program("latency")
def p_sleepers_64_beside_1(program):
    """Sixty-four."""
    program.add(sleeping, program.times, times=64)
    program.compute()


@program("latency")
def p_select_beside_2(program):
    """A loop on select() beside two that compute."""
    near, far = socket.socketpair()

    def tick(_):
        while True:
            time.sleep(0.002)
            far.send(time.perf_counter().hex().encode().ljust(32))

    def loop(counter):
        while True:
            select.select([near], [], [])
            program.times.append(time.perf_counter() - float.fromhex(near.recv(32).decode()))
            counter[0] += 1

    program.add(loop)
    program.helper(tick)
    program.compute(2)


@program("latency")
def p_to_thread(program):
    """An event loop's lag while reports of 20 ms are made in threads."""

    def report():
        until = time.perf_counter() + 0.02
        while time.perf_counter() < until:
            work(200)

    def body(counter):
        async def reports():
            while True:
                await asyncio.to_thread(report)

        async def ticks():
            while True:
                begun = time.perf_counter()
                await asyncio.sleep(0.002)
                program.times.append(time.perf_counter() - begun - 0.002)
                counter[0] += 1

        async def main():
            await asyncio.gather(reports(), reports(), ticks())

        asyncio.run(main())

    program.add(body)


@program("latency")
def p_jupyter_beside_1(program):
    """A Jupyter kernel that executes cells beside a thread that computes in it."""
    program.started.clear()

    def body(counter):
        from jupyter_client.manager import start_new_kernel

        manager, client = start_new_kernel(kernel_name="python3")
        program.kernel = manager
        client.execute_interactive(
            "import threading\ndef burn():\n    while True: sum(i * i for i in range(1000))\n"
            "threading.Thread(target=burn, daemon=True).start()"
        )
        program.started.set()
        while True:
            begun = time.perf_counter()
            client.execute_interactive("1 + 1", store_history=False, output_hook=lambda _: None)
            program.times.append(time.perf_counter() - begun)
            counter[0] += 1

    program.add(body)


# ---------------------------------------------------------------- who computes


@program("equal")
def p_compute_1(program):
    """One thread computes."""
    program.compute(1)


@program("equal")
def p_compute_2(program):
    """Two."""
    program.compute(2)


@program("equal")
def p_compute_4(program):
    """Four."""
    program.compute(4)


@program("equal")
def p_compute_8(program):
    """Eight."""
    program.compute(8)


@program("equal")
def p_bursts_of_3_ms(program):
    """Four threads that compute for 3 ms, then wait for 1 ms."""

    def body(counter):
        while True:
            until = time.perf_counter() + 0.003
            while time.perf_counter() < until:
                work(50)
                counter[0] += 1
            time.sleep(0.001)

    program.add(body, times=4)


@program("equal")
def p_requests_of_8_ms(program):
    """Four threads take turns at a queue of requests, each of which takes 8 ms."""
    items = queue.Queue()
    for _ in range(6):
        items.put(time.perf_counter())

    def body(counter):
        while True:
            asked = items.get()
            work(150_000)
            program.times.append(time.perf_counter() - asked)
            items.put(time.perf_counter())
            counter[0] += 1

    program.add(body, times=4)


# ---------------------------------------------------------------- other things a program has


def idle(program, threads):
    """So many threads that wait, and two that hand each other items."""
    never = threading.Event()
    program.helper(lambda _: never.wait(), times=threads)
    queued(program, 16, 1)


@program("other")
def p_idle_128(program):
    """128 threads that wait for ever, beside a queue's two."""
    idle(program, 128)


@program("other")
def p_idle_512(program):
    """512."""
    idle(program, 512)


@program("other")
def p_garbage(program):
    """Threads that make garbage in cycles, and collect it."""
    heap = [[i] for i in range(100_000)]
    random.shuffle(heap)

    def body(counter):
        while True:
            for _ in range(100):
                one = []
                one.append(one)
            gc.collect(1)
            counter[0] += 1

    program.add(body, times=2)
    program.heap = heap


@program("other")
def p_queue_beside_1(program):
    """A queue's two ends beside one that computes."""
    queued(program, 16, 1)
    program.compute()


@program("other")
def p_pool_beside_1(program):
    """Work handed to a pool beside one that computes."""
    p_submit(program)
    program.compute()


@program("other")
def p_lines_beside_1(program):
    """A thread that reads a file's lines and counts words beside one that computes."""

    def body(counter):
        text = "\n".join(" ".join(random.choices(WORDS, k=8)) for _ in range(2000))
        with open(f"/dev/shm/corpus-{os.getpid()}", "w+") as file:
            os.unlink(file.name)
            file.write(text)
            while True:
                file.seek(0)
                for line in file:
                    line.split()
                counter[0] += 1

    program.add(body)
    program.compute()


def main():
    """Do as the arguments say."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    if len(sys.argv) > 4:
        sys.setswitchinterval(float(sys.argv[4]))
    program = Program()
    PROGRAMS[name][1](program)
    figures = program.run(seconds)
    if (kernel := getattr(program, "kernel", None)) is not None:
        kernel.shutdown_kernel(now=True)
    print(json.dumps(figures), flush=True)
    os._exit(0)  # threads go on for ever


if __name__ == "__main__":
    main()
