"""The numbers of the page on caching are those that the benchmark would write now."""

from itertools import pairwise
from xml.etree import ElementTree as ET

from benchmarks._caches.page import PAGE, PLOT, short
from benchmarks._caches.plot import plot


def test_the_numbers_of_the_page_are_current():
    """A short run stands for the long one; if it differs, `python -m benchmarks._caches` writes the page again."""
    assert short() in PAGE.read_text("utf-8")


def test_the_plot_of_the_page_is_a_picture_of_all_policies():
    root = ET.fromstring(PLOT.read_text("utf-8"))
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 6


def test_a_plot_names_its_lines_without_one_name_over_another():
    root = ET.fromstring(plot({"one": [0, 1.0], "two & more": [0, 1.01], "three": [0, 1.02]}, "t", "x"))
    labels = [one for one in root.iter() if one.get("fill", "").startswith("#") and one.text]
    heights = sorted(float(one.get("y", "0")) for one in labels)
    assert [one.text for one in labels] == ["one: 1.00", "two & more: 1.01", "three: 1.02"]
    assert min(high - low for low, high in pairwise(heights)) >= 15
