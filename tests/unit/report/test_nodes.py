"""The ranks of nodes on the page: in the section on nodes, and in the matrices."""

from __future__ import annotations

from markupsafe import Markup

from tests.browser.runs import demo, slow_node


def test_the_page_names_the_worse_node_and_marks_it_in_the_matrix_of_its_arm() -> None:
    page = Markup(slow_node().page())
    text = page.striptags()
    assert text.count("Worse than the rest: ip-10-1-0-2.") == 1
    assert "not among the 3 best" in text
    table = text[text.index("Medians of the trials in which a node took part") :]
    assert table.index("ip-10-1-0-2") < table.index("ip-10-1-0-0")
    matrices = page.split('data-figure="matrix"')[1:]
    marked = ["\u25bc: worse than the rest" in matrix for matrix in matrices]
    assert marked == [True, False, True, False]


def test_a_page_whose_pairs_cover_no_arm_ranks_and_marks_nothing() -> None:
    text = Markup(demo().page()).striptags()
    assert "may be the best" not in text
    assert "\u25bc" not in text
