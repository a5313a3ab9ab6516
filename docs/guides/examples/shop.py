"""A small shop: prices, a search, and a thread that reads the supplier's feed again every second."""

import json
import pathlib
import re
import threading
import time

from flask import Flask, abort, jsonify, request

app = Flask(__name__)
products, by_word = {}, {}


def load_feed():
    items, words = {}, {}
    for item in json.loads(pathlib.Path("feed.json").read_text()):
        items[item["sku"]] = item
        for word in re.findall(r"[a-z]+", item["name"].lower()):
            words.setdefault(word, set()).add(item["sku"])
    return items, words


def refresh():
    global products, by_word
    while True:
        products, by_word = load_feed()
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


threading.Thread(target=refresh, name="refresh", daemon=True).start()
