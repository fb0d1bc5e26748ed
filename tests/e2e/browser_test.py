"""The live page in a headless Chromium at 375 and 1440 pixels, light and dark: no console errors, text with the contrast of WCAG AA,
nothing wider than the screen, names that are text and not markup, and a word when the server has gone. The numbers are invented
(exposition_demo). With DTRAIN_PICTURES set to a folder, it keeps a picture of each."""

import os
import pathlib
import subprocess
import sys
import time

import chromium
import readable_page
import runner

DEMO = os.environ["DTRAIN_BUILD"] + "/tests/monitoring/exposition_demo"
NAME = '<img src=x onerror="document.title=1">&amp;'  # as the name of a run


def demo(folder, *words, seconds=600):
    process = subprocess.Popen([DEMO, "0", str(folder / "runs"), str(seconds), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, f"http://{process.stdout.readline().strip()}/"


def keep(tab, name):
    if "DTRAIN_PICTURES" in os.environ:
        tab.picture(pathlib.Path(os.environ["DTRAIN_PICTURES"]) / f"{name}.png")


def the_page_is_readable_everywhere(folder):
    process, url = demo(folder, "gpu")
    browser = chromium.Browser(folder / "profile")
    try:
        time.sleep(3)  # some history
        for width in (375, 1440):
            for scheme in ("light", "dark"):
                tab = chromium.Tab(browser, url, width, scheme=scheme)
                tab.wait_for("document.getElementById('state').textContent === 'training'")
                tab.wait_for("document.querySelectorAll('#loss path').length >= 2 && document.querySelectorAll('#phases path.area').length >= 6")
                before = tab.evaluate("document.getElementById('position').textContent")
                tab.wait_for(f"document.getElementById('position').textContent !== {before!r}", 5)  # by itself
                assert tab.evaluate("document.querySelectorAll('#ranks tbody tr').length") == 2
                assert "70 °C" in tab.evaluate("document.getElementById('ranks').textContent")
                assert "data-bound on decode" in tab.evaluate("document.getElementById('verdict').textContent")
                assert tab.evaluate("document.querySelectorAll('#log li').length") > 1
                readable_page.check(tab, width, least_texts=60)
                tab.evaluate("document.getElementById('logarithmic').click()")
                box = tab.evaluate("(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector('#loss svg').getBoundingClientRect())")
                tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
                tab.wait_for("document.getElementById('loss').textContent.includes('step ')", 5)
                keep(tab, f"page-{width}-{scheme}")
                assert not tab.errors(), tab.errors()
    finally:
        browser.close()
        process.kill()
        process.wait()


def the_test_at_the_end_leaves_the_curves_of_validation(folder):
    process, url = demo(folder, "linger=120", seconds=3)
    browser = chromium.Browser(folder / "profile")
    try:
        tab = chromium.Tab(browser, url, 1440)
        tab.wait_for("document.getElementById('state').textContent === 'finished'", 60)
        assert "test mae" in tab.evaluate("document.getElementById('tiles').textContent")
        tab.wait_for("document.querySelectorAll('#metrics path').length === 2")
        points = tab.evaluate("[0, 1].map(i => document.querySelectorAll('#metrics circle.dot' + i).length)")
        assert min(points) >= 2, f"{points} points: validation was every ten steps, of at least twenty"
        assert not tab.errors(), tab.errors()
    finally:
        browser.close()
        process.kill()
        process.wait()


def names_are_text(folder):
    process, url = demo(folder, "job=" + NAME.replace("/", ""))
    browser = chromium.Browser(folder / "profile")
    try:
        tab = chromium.Tab(browser, url, 375)
        tab.wait_for("document.querySelectorAll('#loss path').length >= 1")
        assert tab.evaluate("document.getElementById('run').textContent") == NAME
        assert tab.evaluate("document.querySelectorAll('img, body script').length") == 0
        assert NAME in tab.evaluate("document.title")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 375
        assert not tab.errors(), tab.errors()
    finally:
        browser.close()
        process.kill()
        process.wait()


def a_lost_server_is_said(folder):
    process, url = demo(folder)
    browser = chromium.Browser(folder / "profile")
    try:
        tab = chromium.Tab(browser, url, 1440)
        tab.wait_for("document.getElementById('state').textContent === 'training'")
        assert tab.evaluate("document.getElementById('lost').hidden")
        process.kill()
        process.wait()
        text = tab.wait_for("!document.getElementById('lost').hidden && document.getElementById('lost').textContent", 20)
        assert text.startswith("connection lost, last update ") and any(c.isdigit() for c in text), text
        assert tab.evaluate("document.querySelectorAll('#loss path').length") >= 1, "what was known stays"
        keep(tab, "page-lost")
    finally:
        browser.close()


if chromium.program() is None:
    print("skipped: no Chromium (launch/bootstrap --tests installs it)")
    sys.exit(77)
runner.main([the_page_is_readable_everywhere, the_test_at_the_end_leaves_the_curves_of_validation, names_are_text, a_lost_server_is_said])
