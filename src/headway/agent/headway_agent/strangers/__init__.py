"""A user's function in a measured interpreter: found, called, examined, and run through the models.

`target` finds the function and its inputs, `calls` chooses what a pool runs, `examine` asks cheap questions, `holds`
measures how the function holds the GIL, `workload` is the workload of launches, and `stand_in` replaces the function if
its size must vary.
"""
