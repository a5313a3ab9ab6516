"""One self-contained HTML file of a run, a trace or a simulation.

The data is made here; the drawing is in web/, whose bundle is in assets/.
"""

from headway.report.html.lab_page import lab_page
from headway.report.html.page import render_page
from headway.report.html.simulation_page import simulation_page
from headway.report.html.trace_page import trace_page

__all__ = ["lab_page", "render_page", "simulation_page", "trace_page"]
