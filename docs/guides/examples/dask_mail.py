"""Find the e-mail addresses in messages, on a Dask cluster: dask_mail.py SCHEDULER [MESSAGES]"""

import base64
import collections
import random
import re
import sys
import time

from dask.distributed import Client

ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")


def message(number):
    pick = random.Random(number)
    lines = [f"from {pick.choice('abcdef')}@example.org about order {pick.random()}" for _ in range(20_000)]
    if number % 6 == 0:
        lines.append("token " + base64.urlsafe_b64encode(pick.randbytes(15_000)).decode())
    return "\n".join(lines)


def addresses(number):
    return collections.Counter(ADDRESS.findall(message(number)))


if __name__ == "__main__":
    messages = int((sys.argv + ["36"])[2])
    with Client(sys.argv[1]) as client:
        start = time.perf_counter()
        found = sum(client.gather(client.map(addresses, range(messages), pure=False)), collections.Counter())
        print(f"{found.total()} addresses in {time.perf_counter() - start:.1f} s")
