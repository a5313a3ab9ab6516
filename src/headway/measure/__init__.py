"""Measures a user's function in this process, sync or async, alone or under load, and returns evidence to assert.

A reader starts at `bench.Bench`, the pytest plugin's fixture. `result` has the values that it returns; `rounds`,
`loops` and `work` run the function; `children` runs it in fresh processes; `keep` stores the results.
"""

__all__: list[str] = []
