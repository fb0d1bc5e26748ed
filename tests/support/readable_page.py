"""What a page must be for all who read it, measured in a Tab of chromium.py: nothing wider than the screen, text with the
contrast of WCAG AA, no chart that cuts its text, an empty console."""

MEASURE = r"""(() => {
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
return measure();
})()"""


def measured(tab):
    tab.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")
    return tab.evaluate(MEASURE)


def check(tab, width, least_texts):
    found = measured(tab)
    assert found["width"] == width, found["width"]
    assert found["texts"] >= least_texts, found["texts"]
    assert not found["wide"] and not found["faint"] and not found["cut"], (width, found)
    assert not tab.errors(), tab.errors()
