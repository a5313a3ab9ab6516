"""A shop with a CPU-bound background thread, which keeps the mean and the spread of the prices of each kind."""

import threading

from flask import Flask, jsonify

KINDS = 50
app = Flask(__name__)
prices = [100 + number * 7919 % 9000 for number in range(50_000)]
statistics, rounds = dict.fromkeys(range(KINDS), (0.0, 0.0)), 0


def keep_statistics():
    global rounds
    while True:
        for kind in range(KINDS):
            count, mean, squares = 0, 0.0, 0.0
            for price in prices[kind::KINDS]:
                count += 1
                off = price - mean
                mean += off / count
                squares += off * (price - mean)
            statistics[kind] = (mean, (squares / count) ** 0.5)
            rounds += 1


@app.get("/price/<int:number>")
def price(number):
    mean, spread = statistics[number % KINDS]
    return jsonify(number=number, price=prices[number], mean=mean, spread=spread)


@app.get("/rounds")
def done():
    return jsonify(rounds)


threading.Thread(target=keep_statistics, name="statistics", daemon=True).start()
