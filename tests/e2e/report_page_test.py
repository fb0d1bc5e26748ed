"""The pages of `dtrain report` in headless Chromium, at the width of a phone and of a desktop, light and dark."""

import os
import pathlib
import shutil
import sys

import browser
import runner

if browser.chromium() is None:
    print("skipped: there is no Chromium")
    sys.exit(77)


def keep(folder, page, name):
    """With DTRAIN_PICTURES=FOLDER, pictures for people to look at."""
    out = os.environ.get("DTRAIN_PICTURES")
    for width, height in ((375, 9000), (1440, 3200)) if out else ():
        for dark in (False, True):
            browser.screenshot(page, folder, width, height, dark, pathlib.Path(out) / f"{name}_{width}{'_dark' if dark else ''}.png")


def of_a_task(task):
    def test(folder):
        size = ["--size", 48] if task in ("headpose", "classify") else []
        runner.run(["synth", task, "--samples", 160, *size, "--out", folder / "d.h5"]).expect(0)
        more = ["--model.image_size", 48] if size else []
        more += ["--model.name", "mobilenet_v2"] if task == "classify" else []
        words = ["--task", task, "--data.file", "d.h5", "--name", "a_name_that_is_rather_long_" + "x" * 60, "--batch-size", 8, "--epochs", 4, "--run.log_every", 1,
                 "--metrics.enabled", "false", *more]
        runner.run(words, cwd=folder, np=2).expect(0)
        run = next((folder / "runs").glob("a_name*"))
        browser.check(run / "report.html", folder)
        keep(folder, run / "report.html", task)
        if size:
            assert browser.measured(run / "report.html", folder, 1440)["pictures"] == 12
        shutil.copytree(run, folder / "runs/b")
        runner.run(["report", run, "runs/b"], cwd=folder).expect(0)
        browser.check(folder / "runs/b/comparison.html", folder, least_texts=30)
        keep(folder, folder / "runs/b/comparison.html", f"{task}_comparison")
    test.__name__ = f"of_{task}"
    return test


def the_measurement_can_fail(folder):
    """A page with each of the faults that the other tests look for."""
    page = folder / "bad.html"
    page.write_text('<!DOCTYPE html><html><head><title>t</title></head><body style="background:#fff"><p style="color:#bbb">faint</p>'
                    '<div style="width:2000px">wide</div><svg class="chart" width="50" height="20" style="overflow:visible"><text x="30" y="10">cut text that is long'
                    "</text></svg><script>console.error('noise')</script></body></html>")
    found = browser.measured(page, folder, 375)
    assert found["width"] == 375 and found["faint"] and found["wide"] and found["cut"], found
    assert browser.console(page, folder)


runner.main([the_measurement_can_fail, *map(of_a_task, ["headpose", "classify", "pointer", "sequence"])])
