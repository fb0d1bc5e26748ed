"""The pages of `dtrain report` in headless Chromium, at the width of a phone and of a desktop, light and dark."""

import os
import pathlib
import shutil
import sys

import chromium
import readable_page
import runner

if chromium.program() is None:
    print("skipped: no Chromium (launch/bootstrap --tests installs it)")
    sys.exit(77)


def check(folder, page, name, least_texts=50):
    """Returns how many pictures it has. With DTRAIN_PICTURES=FOLDER, it keeps pictures for people to look at."""
    browser = chromium.Browser(folder / f"profile-{name}")
    try:
        for width in (375, 1440):
            for scheme in ("light", "dark"):
                tab = chromium.Tab(browser, page.resolve().as_uri(), width, scheme=scheme)
                readable_page.check(tab, width, least_texts)
                if "DTRAIN_PICTURES" in os.environ:
                    tab.picture(pathlib.Path(os.environ["DTRAIN_PICTURES"]) / f"{name}-{width}-{scheme}.png")
        return readable_page.measured(tab)["pictures"]
    finally:
        browser.close()


def of_a_task(task):
    def test(folder):
        size = ["--size", 48] if task in ("headpose", "classify") else []
        runner.run(["synth", task, "--samples", 160, *size, "--out", folder / "d.h5"]).expect(0)
        more = ["--model.image_size", 48] if size else []
        more += ["--model.name", "mobilenet_v2"] if task == "classify" else []
        more += ["--sequence.encoder_epochs", 1, "--sequence.classifier_epochs", 1] if task == "sequence" else []
        words = ["--task", task, "--data.file", "d.h5", "--name", "a_name_that_is_rather_long_" + "x" * 60, "--batch-size", 8, "--epochs", 4, "--run.log_every", 1,
                 "--metrics.enabled", "false", *more]
        runner.run(words, cwd=folder, np=2).expect(0)
        run = next((folder / "runs").glob("a_name*"))
        pictures = check(folder, run / "report.html", task)
        assert pictures == (12 if size else 0), pictures
        shutil.copytree(run, folder / "runs/b")
        runner.run(["report", run, "runs/b"], cwd=folder).expect(0)
        check(folder, folder / "runs/b/comparison.html", f"{task}-comparison", least_texts=30)
    test.__name__ = f"of_{task}"
    return test


def the_measurement_can_fail(folder):
    """A page with each of the faults that the other tests look for."""
    page = folder / "bad.html"
    page.write_text('<!DOCTYPE html><html><head><title>t</title></head><body style="background:#fff"><p style="color:#bbb">faint</p>'
                    '<div style="width:2000px">wide</div><svg class="chart" width="50" height="20" style="overflow:visible"><text x="30" y="10">cut text that is long'
                    "</text></svg><script>console.error('noise')</script></body></html>")
    browser = chromium.Browser(folder / "profile")
    try:
        tab = chromium.Tab(browser, page.resolve().as_uri(), 375)
        found = readable_page.measured(tab)
        assert found["width"] == 375 and found["faint"] and found["wide"] and found["cut"], found
        assert tab.errors()
    finally:
        browser.close()


runner.main([the_measurement_can_fail, *map(of_a_task, ["headpose", "classify", "pointer", "sequence"])])
