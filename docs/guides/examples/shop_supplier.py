"""The supplier: writes feed.json with 60,000 products, and changes 600 prices a second until it is stopped."""

import json
import os
import random
import re
import time

WORDS = "red blue steel oak garden desk lamp chair small folding outdoor kids".split()
products = [
    {
        "sku": f"A{n}",
        "name": " ".join(random.choices(WORDS, k=4)),
        "price": 1000 + n % 9000,
        "tags": random.choices(WORDS, k=2),
    }
    for n in range(60_000)
]
feed = bytearray(json.dumps(products).encode())
prices = [found.end() for found in re.finditer(rb'"price": ', feed)]
while True:
    for place in random.sample(prices, 600):
        feed[place : place + 4] = b"%d" % random.randrange(1000, 10_000)
    with open("feed.new", "wb") as file:
        file.write(feed)
    os.replace("feed.new", "feed.json")
    print("feed.json has new prices", flush=True)
    time.sleep(1)
