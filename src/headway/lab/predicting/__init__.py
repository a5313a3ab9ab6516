"""Predictions of cells that are not measured yet, by the simulator. The only room of the lab that imports `headway.sim`.

The lab imports the simulator here, and is not handed it by the command line: a run of the experiment `predictions` is then
the same from Python as from the command line. The other rooms see a function of cells and values (`launching.session.Predict`),
so that what is measured, stored and judged knows nothing of how predictions are made; tools/check_layers.py holds that.
"""

__all__: list[str] = []
