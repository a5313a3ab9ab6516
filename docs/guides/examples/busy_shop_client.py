"""Ask the busy shop for prices, over four connections that each wait for the answer: busy_shop_client.py PORT [SECONDS]"""

import http.client
import sys
import threading
import time

PORT, SECONDS = int(sys.argv[1]), float((sys.argv + ["10"])[2])
took = []


def customer():
    connection = http.client.HTTPConnection("127.0.0.1", PORT)
    end = time.perf_counter() + SECONDS
    while (begun := time.perf_counter()) < end:
        connection.request("GET", "/price/17")
        response = connection.getresponse()
        response.read()
        assert response.status == 200, response.status
        took.append(time.perf_counter() - begun)


customers = [threading.Thread(target=customer) for _ in range(4)]
for thread in customers:
    thread.start()
for thread in customers:
    thread.join()
took.sort()
p50, p90, p99 = (took[int(len(took) * share)] * 1e3 for share in (0.5, 0.9, 0.99))
print(f"answers: p50 {p50:.2f} ms, p90 {p90:.2f} ms, p99 {p99:.2f} ms; {len(took) / SECONDS:.0f} requests/s")
