"""The page in a real browser: it renders, the play button moves the ball, and no error is logged."""

import pytest

from jaxhamel.viz import Report, ball_charts, ball_scene
from tests.viz.browser import eventually, opened, requested_addresses
from tests.viz.motions import figure_eight_motion


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    motion = figure_eight_motion()
    report = Report("Figure-eight", "A ball & its path.", ball_scene(motion), ball_charts(motion))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report.html(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(page, tmp_path_factory):
    with opened(page, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def pixels(browser):
    return browser.execute_script("return document.getElementById('view').toDataURL()")


def state(browser, name):
    return browser.execute_script(f"return window.jaxhamel.state.{name}")


def test_canvas_shows_the_ball(browser):
    """The shell, which the camera follows, fills the middle of the canvas; thin lines would not."""
    filled = browser.execute_script(
        """const c = document.getElementById('view'), n = 80;
        const d = c.getContext('2d').getImageData(c.width / 2 - n / 2, c.height / 2 - n / 2, n, n).data;
        let count = 0;
        for (let k = 3; k < d.length; k += 4) if (d[k] > 20) count++;
        return count / (n * n);"""
    )
    assert filled > 0.95


def test_play_moves_the_ball_and_pause_stops_it(browser):
    before, centre = pixels(browser), state(browser, "centre")
    button = browser.find_element("id", "play")
    button.click()
    assert eventually(lambda: state(browser, "time") > 0.3)
    assert state(browser, "centre") != centre
    assert pixels(browser) != before
    assert button.get_attribute("aria-label") == "Pause"
    button.click()
    stopped = state(browser, "time")
    assert not eventually(lambda: state(browser, "time") != stopped, seconds=0.5)


def test_space_plays_and_slider_seeks(browser):
    browser.find_element("id", "view").click()
    browser.switch_to.active_element.send_keys(" ")
    assert state(browser, "playing") is True
    browser.switch_to.active_element.send_keys(" ")
    assert state(browser, "playing") is False
    browser.execute_script(
        """const s = document.getElementById('time'); s.value = 10;
        s.dispatchEvent(new Event('input'));"""
    )
    assert state(browser, "time") == pytest.approx(10.0)
    assert state(browser, "centre")[:2] == pytest.approx([0.0, 0.0], abs=0.02)  # half a period


def test_cursors_follow_the_time(browser):
    left = "return parseFloat(document.querySelector('#chart-angles .cursor').style.left)"
    browser.execute_script("jaxhamel.seek(0)")
    start = browser.execute_script(left)
    browser.execute_script("jaxhamel.seek(20)")
    assert browser.execute_script(left) > start + 50


def test_drag_turns_and_wheel_zooms(browser):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    view = browser.find_element("id", "view")
    look = "return [jaxhamel.camera.azimuth, jaxhamel.camera.distance]"
    azimuth, distance = browser.execute_script(look)
    ActionChains(browser).drag_and_drop_by_offset(view, 120, 10).perform()
    ActionChains(browser).scroll_from_origin(ScrollOrigin.from_element(view), 0, 200).perform()
    assert eventually(lambda: browser.execute_script(look)[1] != distance)
    assert browser.execute_script(look)[0] != azimuth


def test_follow_and_reset(browser):
    distance = "return jaxhamel.camera.distance"
    browser.find_element("id", "reset").click()
    near = browser.execute_script(distance)
    browser.find_element("id", "follow").click()
    assert (
        browser.execute_script(distance) > near
    )  # the fixed camera is far enough to see the whole path


def test_no_error_and_no_network(browser, page):
    assert browser.get_log("browser") == []
    own = (
        "data:",
        "chrome:",
        "chrome-untrusted:",
        "about:",
    )  # these include the browser's own empty first page
    addresses = [a for a in requested_addresses(browser) if not a.startswith(own)]
    assert set(addresses) == {page.as_uri()}
