"""A user's function in a measured interpreter: found, called, looked at, and run through the models.

`target` finds it and its inputs, `calls` makes what a pool is given, `examine` asks cheap questions, `holds` looks who
has the GIL while it runs, `workload` is what launches run, `stand_in` what takes its place where its size must vary.
"""
