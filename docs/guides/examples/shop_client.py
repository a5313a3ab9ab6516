"""Measure the answers to four customers who send the shop 80 requests a second: shop_client.py PORT [SECONDS]"""

import http.client
import re
import sys
import threading
import time

PORT, SECONDS = int(sys.argv[1]), float((sys.argv + ["10"])[2])
took, waited = {"price": [], "search": []}, []


def has_feed(connection):
    connection.request("GET", "/price/A0")
    response = connection.getresponse()
    response.read()
    return response.status == 200


def customer(number):
    connection = http.client.HTTPConnection("127.0.0.1", PORT)
    while not has_feed(connection):
        time.sleep(0.1)
    start = time.perf_counter() + number * 0.0125
    for turn in range(int(SECONDS / 0.05)):
        time.sleep(max(0, start + turn * 0.05 - time.perf_counter()))
        kind, path = ("search", "/search?q=oak+lamp") if turn % 10 == number else ("price", f"/price/A{turn}")
        begun = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        took[kind].append(time.perf_counter() - begun)
        assert response.status == 200, response.status
        if timing := re.search(r"gil-wait;dur=([\d.]+)", response.headers.get("Server-Timing", "")):
            waited.append(float(timing[1]) / 1e3)


def show(what, times):
    times.sort()
    p50, p90, p99 = (times[int(len(times) * share)] * 1e3 for share in (0.5, 0.9, 0.99))
    print(f"{what:8} {len(times):4} requests: p50 {p50:6.2f} ms, p90 {p90:6.2f} ms, p99 {p99:6.2f} ms")


customers = [threading.Thread(target=customer, args=(number,)) for number in range(4)]
for thread in customers:
    thread.start()
for thread in customers:
    thread.join()
for kind, times in took.items():
    show(kind, times)
if waited:
    show("gil-wait", waited)
