"""A headless Chromium browser, if the machine has one."""

import contextlib
import json
import shutil
import time

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)


@contextlib.contextmanager
def opened(page, profile):
    """The page in a new browser; the test is skipped if there is no browser."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs Chromium and chromedriver on the PATH to open the page")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (jaxhamel[test])")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        browser.get(page.as_uri())
        yield browser
    finally:
        browser.quit()


def eventually(condition, seconds=15.0):
    """Waits for `condition()`; False if it stays false for the whole time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return bool(condition())


def requested_addresses(browser):
    """All addresses that the page requested, from the browser's log."""
    entries = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [
        entry["params"]["request"]["url"]
        for entry in entries
        if entry["method"] == "Network.requestWillBeSent"
    ]
