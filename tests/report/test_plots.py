"""Figures: axes in powers, and names that fit."""

import pytest

from albert_rc.report import plots


def test_a_figure_in_powers_leaves_out_what_is_nothing():
    figure = plots.lines({"MiB": {"lsh": ([128, 256, 512], [0, 3, 6])}}, "tokens", "peak", log=True)
    (line,) = figure.axes[0].get_lines()
    assert list(line.get_xdata()) == [256, 512]
    assert list(line.get_ydata()) == [3, 6]
    assert figure.axes[0].get_ylim()[0] > 1


@pytest.mark.parametrize("panels", [1, 2])
def test_no_name_of_a_line_is_cut_off(panels):
    agg = pytest.importorskip("matplotlib.backends.backend_agg")
    names = [f"a rather long name of a system, number {i}" for i in range(5)]
    drawn = {name: ([1, 2], [1, i]) for i, name in enumerate(names)}
    figure = plots.lines({f"panel {i}": drawn for i in range(panels)}, "steps", "title")
    agg.FigureCanvasAgg(figure).draw()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert box.y0 >= 0
