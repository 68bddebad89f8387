"""SVG of a picture: what is in the lines is in the document, at its column and in its colour."""

from xml.etree import ElementTree

from headway.report import svg
from headway.report.diagram import Piece, fit, stack
from headway.schedule import families
from headway.sim import unit_time

SPACE = "{http://www.w3.org/2000/svg}"


def elements(document, name):
    return list(ElementTree.fromstring(document).iter(SPACE + name))


def test_a_block_is_a_box_of_its_colour_and_width_with_its_number_in_it():
    document = svg.render([(Piece("r0 "), Piece(" 7 ", "bold underline #ffffff on #0369a1"))], "one")
    paper, box = elements(document, "rect")
    assert (paper.get("fill"), box.get("fill")) == ("#ffffff", "#0369a1")
    assert (box.get("x"), box.get("width")) == ("36", "23")
    label, number = elements(document, "text")
    assert (label.text, label.get("fill")) == ("r0", "#1c1917")
    assert (number.text, number.get("x"), number.get("fill")) == ("7", "44", "#ffffff")
    assert (number.get("font-weight"), number.get("text-decoration")) == ("bold", "underline")


def test_signs_that_xml_uses_itself_are_escaped():
    document = svg.render([(Piece("<0 >"),)], "a < b & c")
    assert [text.text for text in elements(document, "text")] == ["<0 >"]
    assert elements(document, "title")[0].text == "a < b & c"


def test_the_svg_of_a_schedule_has_a_box_for_every_block():
    schedule = families.build("zb-h1", pipeline=2, microbatches=3)
    trace = unit_time.play(schedule).trace
    scale = fit([trace], columns=120, coloured=True)
    document = svg.render(stack([("zb-h1", trace)], scale, "{:g}".format), "zb-h1")
    samples = 3  # of the legend
    assert len(elements(document, "rect")) == 1 + 2 * 9 + samples
    said = [text.text for text in elements(document, "text")]
    assert said[0] == "zb-h1"
    assert {"forward", "input-backward", "weight-backward", "idle"} <= set(said)


def test_no_lines_are_an_empty_picture():
    assert len(elements(svg.render([], "nothing"), "rect")) == 1
