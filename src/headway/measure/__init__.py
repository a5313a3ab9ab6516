"""A user's function measured in this process: sync or async, alone or under load, with evidence that can be asserted.

`bench.Bench` is the door (the pytest plugin's fixture); `result` what comes out; `rounds`, `loops` and `work` how it is
run; `children` runs it in fresh processes, and `keep` stores it.
"""

__all__: list[str] = []
