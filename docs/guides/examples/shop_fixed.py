"""The shop of shop.py, but a helper process reads the feed and sends only the products that changed."""

import concurrent.futures
import json
import multiprocessing
import pathlib
import re
import threading
import time

from flask import Flask, abort, jsonify, request

app = Flask(__name__)
products, by_word = {}, {}


def changed_items(seen={}):  # in the helper process, which keeps what it has sent
    items = json.loads(pathlib.Path("feed.json").read_text())
    changed = [item for item in items if seen.get(item["sku"]) != item]
    seen.update((item["sku"], item) for item in changed)
    return changed


def refresh():
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as helper:
        while True:
            for item in helper.submit(changed_items).result():
                products[item["sku"]] = item
                for word in re.findall(r"[a-z]+", item["name"].lower()):
                    by_word.setdefault(word, set()).add(item["sku"])
            time.sleep(1)


@app.get("/price/<sku>")
def price(sku):
    item = products.get(sku) or abort(404)
    return jsonify(sku=sku, price=item["price"])


@app.get("/search")
def search():
    skus = set.intersection(*(by_word.get(word, set()) for word in request.args["q"].lower().split()))
    hits = sorted((products[sku] for sku in skus), key=lambda item: item["price"])
    return jsonify(hits[:20])


if multiprocessing.parent_process() is None:  # not in the helper, which imports this file, too
    threading.Thread(target=refresh, name="refresh", daemon=True).start()
