"""Sum up orders in Python, in many small tasks on a Dask cluster: dask_orders.py SCHEDULER [TASKS]"""

import sys
import time

from dask.distributed import Client

TASKS = int((sys.argv + ["300"])[2])


def total(month):
    totals = {}
    for order in range(50_000):
        customer = (month + order * 7919) % 1000
        totals[customer] = totals.get(customer, 0) + order % 97
    return max(totals.values())


if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        start = time.perf_counter()
        best = max(client.gather(client.map(total, range(TASKS), pure=False)))
        print(f"{TASKS} tasks, the best customer {best}, in {time.perf_counter() - start:.2f} s")
