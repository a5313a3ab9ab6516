"""The programs of `policy_corpus.py` that have no client, run in the measured interpreter.

    policy_corpus_workload.py NAME SECONDS [--switch-interval S]

The module is one file because it is a list: a program has a dozen lines, and readers look for them here; those of
the groups "calls" and "equal" are in policy_corpus_calls_workload.py and policy_corpus_equal_workload.py. It prints a
line of JSON: the pieces of work a second (`rate`), the CPU time for each piece (`cpu_s`), p50 and p99 of the pieces
that are timed (`p50_s`, `p99_s`), the work of CPU-bound threads beside them (`computed`), and the work of the least
thread over a fair share (`least`).
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

import policy_corpus_calls_workload  # noqa: F401  (its programs are added to PROGRAMS)
import policy_corpus_equal_workload  # noqa: F401
from policy_corpus_crew_workload import PROGRAMS, Program, calling, program, sleeping, work

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]


# ---------------------------------------------------------------- threads that pass something to each other


def mapped(program, items):
    """Start a thread that maps a trivial function over so many items at a time, in a pool of four threads."""

    def body(counter):
        with ThreadPoolExecutor(4) as pool:
            while True:
                for _ in pool.map(abs, range(items)):
                    counter[0] += 1

    program.add(body)


@program("hand-overs")
def p_map(program):
    """A pool of four threads maps a trivial function over fifty items."""
    mapped(program, 50)


@program("hand-overs")
def p_submit(program):
    """One piece of work at a time is submitted to a pool of four threads, and waited for."""

    def body(counter):
        with ThreadPoolExecutor(4) as pool:
            while True:
                pool.submit(work, 100).result()
                counter[0] += 1

    program.add(body)


@program("hand-overs")
def p_wait_for_ten(program):
    """Ten pieces of work at a time are submitted to a pool of four threads, and waited for."""

    def body(counter):
        with ThreadPoolExecutor(4) as pool:
            while True:
                wait([pool.submit(work, 300) for _ in range(10)])
                counter[0] += 10

    program.add(body)


@program("hand-overs")
def p_submit_thousands(program):
    """A thread submits 2,000 small pieces of work at a time to a pool of four threads, and computes for them."""
    mapped(program, 2_000)


@program("hand-overs")
def p_queue_of_any_size(program):
    """A thread makes items and puts them into a queue without a limit, 2,000 at a time; four threads take them."""
    items = queue.Queue()
    taken = threading.Semaphore(0)

    def put(_):
        while True:
            for _ in range(2_000):
                work(20)
                items.put(None)
            for _ in range(2_000):
                taken.acquire()

    def take(counter):
        while True:
            items.get()
            counter[0] += 1
            taken.release()

    program.helper(put)
    program.add(take, times=4)


@program("hand-overs")
def p_pipeline(program):
    """Five threads pass items on through four queues of 16 items."""
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
    """One producer, and eight consumers that work 15 us on each item."""
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
    """Start `ends` producers and as many consumers at a queue of this size."""
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
    """One producer and one consumer at a queue of one item."""
    queued(program, 1, 1)


@program("hand-overs")
def p_queue_of_16(program):
    """One producer and one consumer at a queue of 16 items."""
    queued(program, 16, 1)


@program("hand-overs")
def p_queue_of_1000(program):
    """One producer and one consumer at a queue of 1,000 items."""
    queued(program, 1000, 1)


@program("hand-overs")
def p_queue_2_and_2(program):
    """Two producers and two consumers at a queue of 100 items."""
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
    """Two threads pass the turn to each other by a condition."""
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
    """Eight threads share a semaphore that lets two of them work."""
    semaphore = threading.Semaphore(2)

    def body(counter):
        while True:
            with semaphore:
                work(100)
            counter[0] += 1

    program.add(body, times=8)


@program("hand-overs")
def p_barrier(program):
    """Four threads meet at a barrier, over and over."""
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
    """Eight threads acquire four nested locks."""
    locks = [threading.RLock() for _ in range(4)]

    def body(counter):
        while True:
            with locks[0], locks[1], locks[2], locks[3]:
                work(20)
            counter[0] += 1

    program.add(body, times=8)


def paired(program, pairs):
    """Start pairs of threads that send a byte to each other and back."""

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
    """One pair of threads sends a byte to and fro over a socket pair."""
    paired(program, 1)


@program("hand-overs")
def p_socket_pairs_4(program):
    """Four pairs of threads send a byte to and fro."""
    paired(program, 4)


@program("hand-overs")
def p_lock_of_a_computing_thread(program):
    """A thread computes 5 ms with a lock and 5 ms without it, one needs the lock, and two are CPU-bound."""
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


# ---------------------------------------------------------------- calls of libraries


def database():
    """Return a connection to a small table in memory."""
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a integer, b text)")
    connection.executemany("insert into t values (?, ?)", [(i, str(i)) for i in range(2000)])
    return connection


def scanning(counter):
    """Scan a table that only this thread uses."""
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
    """SQLite scans in one thread beside a CPU-bound thread."""
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
    """sha256 of 3 KiB, large enough that the GIL is released, in four threads."""
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
    """Operations on NumPy arrays of a million elements in four threads."""
    import numpy as np

    def body(counter):
        array = np.arange(1e6)
        while True:
            np.sqrt(array)
            counter[0] += 1

    program.add(body, times=4)


@program("libraries")
def p_joblib(program):
    """Small pieces of work for the threads of joblib."""
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
    """A random forest of scikit-learn, whose trees are made in four threads."""
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
    """A Dask graph of small pieces of work, in four threads."""
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


# ---------------------------------------------------------------- threads whose latency counts


@program("latency")
def p_sleepers_8(program):
    """Eight sleeping threads, and no CPU-bound thread."""
    program.add(sleeping, program.times, times=8)


@program("latency")
def p_sleepers_8_beside_1(program):
    """Eight sleeping threads beside a CPU-bound thread."""
    program.add(sleeping, program.times, times=8)
    program.compute()


@program("latency")
def p_sleepers_64_beside_1(program):
    """Sixty-four sleeping threads beside a CPU-bound thread."""
    program.add(sleeping, program.times, times=64)
    program.compute()


@program("latency")
def p_select_beside_2(program):
    """A loop on select() beside two CPU-bound threads."""
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
def p_sleeper_and_bursts(program):
    """A sleeping thread beside one that computes for 10 ms and sleeps for 10 ms."""

    def bursts(_):
        while True:
            until = time.perf_counter() + 0.01
            while time.perf_counter() < until:
                work(20)
            time.sleep(0.01)

    program.add(sleeping, program.times)
    program.helper(bursts)


@program("latency")
def p_to_thread(program):
    """The lag of an event loop while reports that take 20 ms each are made in threads."""

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
    """A Jupyter kernel that executes cells beside a CPU-bound thread in the same process."""
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


# ---------------------------------------------------------------- other programs


def idle(program, threads):
    """Start threads that wait for ever, and two that pass items through a queue."""
    never = threading.Event()
    program.helper(lambda _: never.wait(), times=threads)
    queued(program, 16, 1)


@program("other")
def p_idle_128(program):
    """128 threads wait for ever, beside a producer and a consumer at a queue."""
    idle(program, 128)


@program("other")
def p_idle_512(program):
    """512 threads wait for ever, beside a producer and a consumer at a queue."""
    idle(program, 512)


@program("other")
def p_garbage(program):
    """Threads make cyclic garbage, and collect it."""
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
    """A producer and a consumer at a queue, beside a CPU-bound thread."""
    queued(program, 16, 1)
    program.compute()


@program("other")
def p_pool_beside_1(program):
    """Pieces of work for a pool, beside a CPU-bound thread."""
    p_submit(program)
    program.compute()


@program("other")
def p_lines_beside_1(program):
    """A thread reads a file's lines and splits them into words, beside a CPU-bound thread."""

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
    """Run the program of the arguments and print its figures."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    if len(sys.argv) > 4:
        sys.setswitchinterval(float(sys.argv[4]))
    program = Program()
    PROGRAMS[name][1](program)
    figures = program.run(seconds)
    if (kernel := getattr(program, "kernel", None)) is not None:
        kernel.shutdown_kernel(now=True)
    print(json.dumps(figures), flush=True)
    os._exit(0)  # the threads run for ever


if __name__ == "__main__":
    main()
