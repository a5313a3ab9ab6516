"""Runs one thread that computes and two that want the GIL again and again. Prints `ready`; ends after Ctrl-C or `stop`."""

import sys
import threading
import time


def compute():
    while True:
        sum(number * number for number in range(2000))


def ask():
    while True:
        time.sleep(0.001)


threading.Thread(target=compute, name="burner", daemon=True).start()
for number in range(2):
    threading.Thread(target=ask, name=f"sleeper-{number}", daemon=True).start()
try:
    print("ready", *sys.argv[1:], flush=True)
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    print("interrupted", flush=True)
