"""Opens a page in headless Chromium and measures it, without a driver: the copy that is opened has a script in it that writes its findings
into the page, and Chromium prints the page. Widths below the smallest window are made with a frame."""

import html
import json
import pathlib
import re
import shutil
import subprocess

MEASURE = r"""
function luminance(c) { const l = c.slice(0, 3).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
  return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; }
function parsed(text) { const m = text.match(/[\d.]+/g); return m === null ? [0, 0, 0, 0] : [+m[0], +m[1], +m[2], m[3] === undefined ? 1 : +m[3]]; }
function over(top, opacity, under) { return [0, 1, 2].map(i => top[i] * opacity + under[i] * (1 - opacity)); }
function background(e) {
  for (; e; e = e.parentElement) { const c = parsed(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; }
  return [255, 255, 255, 1];
}
function measure() {
  const width = document.documentElement.clientWidth, found = { width, wide: [], faint: [], cut: [], texts: 0, pictures: 0 };
  if (document.documentElement.scrollWidth > width) found.wide.push("page: " + document.documentElement.scrollWidth);
  const scrolls = e => { for (; e; e = e.parentElement) if (["auto", "scroll"].includes(getComputedStyle(e).overflowX)) return true; return false; };
  for (const e of document.querySelectorAll("body *")) {
    const r = e.getBoundingClientRect();
    if (r.width > 0 && r.right > width + 1 && !scrolls(e)) found.wide.push(e.tagName + " " + (e.textContent || "").slice(0, 40));
    if (e.tagName === "IMG" && e.naturalWidth > 0) ++found.pictures;
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (text === "" || ["SCRIPT", "STYLE", "title"].includes(e.tagName) || e.getClientRects().length === 0) continue;
    ++found.texts;
    const style = getComputedStyle(e), svg = e.ownerSVGElement;
    const color = parsed(svg ? style.fill : style.color);
    let behind = background(svg || e);
    if (svg && e.classList.contains("cell") && e.previousElementSibling) {
      const cell = getComputedStyle(e.previousElementSibling);
      behind = over(parsed(cell.fill), +cell.fillOpacity, behind);
    }
    const a = luminance(color), b = luminance(behind), contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
    if (contrast < (large ? 3 : 4.5)) found.faint.push(text.slice(0, 40) + " " + contrast.toFixed(2));
    if (svg && svg.classList.contains("chart")) {
      const r = e.getBoundingClientRect(), s = svg.getBoundingClientRect();
      if (r.right > s.right + 1 || r.left < s.left - 1 || r.bottom > s.bottom + 1) found.cut.push(text.slice(0, 40));
    }
  }
  return found;
}
addEventListener("load", () => { parent.document.getElementById("found").textContent = JSON.stringify(measure()); });
"""


def chromium():
    return next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome", "chrome"])), None)


def run(arguments, folder):
    words = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
             f"--user-data-dir={folder / 'chromium'}", "--enable-logging=stderr", "--log-level=0", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, errors="replace")


def console(page, folder):
    """What the page as it is writes to the console, and what it asks for from outside."""
    done = run(["--dump-dom", page.resolve().as_uri()], folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def framed(page, width, height, dark, script):
    """A page that shows another one in a frame of this width, in one of its two themes, with `script` in it."""
    text = pathlib.Path(page).read_text()
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    text = re.sub(r"@media screen and \(prefers-color-scheme: dark\)", "@media all" if dark else "@media not all", text)
    text = text.replace("</head>", f"<script>{script}</script></head>", 1)
    return (f'<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><pre id="found" hidden></pre>'
            f'<iframe style="border:0;width:{width}px;height:{height}px" srcdoc="{html.escape(text)}"></iframe>')


def measured(page, folder, width, dark=False):
    copy = folder / f"measured_{width}_{dark}.html"
    copy.write_text(framed(page, width, 4000, dark, MEASURE))
    done = run(["--virtual-time-budget=5000", f"--window-size={max(width, 600)},4000", "--dump-dom", copy.resolve().as_uri()], folder)
    found = re.search(r'<pre id="found"[^>]*>(.*?)</pre>', done.stdout, re.DOTALL)
    assert done.returncode == 0 and found and found.group(1), (done.returncode, done.stderr[-2000:])
    return json.loads(html.unescape(found.group(1)))


def screenshot(page, folder, width, height, dark, out):
    copy = folder / f"shown_{width}_{dark}.html"
    copy.write_text(framed(page, width, height, dark, ""))
    run([f"--window-size={width},{height}", f"--screenshot={pathlib.Path(out).resolve()}", copy.resolve().as_uri()], folder)


def check(page, folder, least_texts=50):
    """Both widths, both themes: nothing overflows, all text can be read, no chart cuts its text, the console stays empty."""
    assert console(page, folder) == [], console(page, folder)
    for width in (375, 1440):
        for dark in (False, True):
            found = measured(page, folder, width, dark)
            assert found["width"] == width, found["width"]
            assert found["texts"] >= least_texts, found["texts"]
            assert not found["wide"] and not found["faint"] and not found["cut"], (width, dark, found)
