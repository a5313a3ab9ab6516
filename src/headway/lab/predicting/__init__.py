"""Predictions by the simulator, of cells not measured yet; the only part of the lab that imports `headway.sim`.

The lab imports the simulator here, and does not get it from the command line, so that a run of the experiment
`predictions` is the same from Python as from the command line. The other parts see a function of cells and values
(`launching.session.Predict`). The code that measures, stores and judges therefore knows nothing of how predictions are
made; tools/check_layers.py checks this.
"""

__all__: list[str] = []
