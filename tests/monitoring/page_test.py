"""The files of the live page, as far as they can be checked without a browser: they load nothing from elsewhere, put what comes from
a run into the page as text alone, obey the server's Content-Security-Policy, and have readable colors in light and dark."""

import re
import sys

import board

PAGE = board.MONITORING / "page"
html, css, js = ((PAGE / name).read_text() for name in ("live.html", "style.css", "script.js"))
problems = []


def check(condition, what):
    if not condition:
        problems.append(what)


def palettes():
    """The custom properties of the light scheme and of the dark one."""
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    assert len(blocks) == 2, blocks
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in blocks)
    return {"light": light, "dark": dark}


def luminance(color):
    """WCAG 2.2's relative luminance."""
    parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


assert abs(contrast("#ffffff", "#000000") - 21) < 1e-9 and abs(contrast("#777777", "#ffffff") - 4.48) < 0.01
for scheme, colors in palettes().items():
    check(set(colors) == set(palettes()["light"]), f"{scheme} lacks colors of the other scheme")
    for back in ("back", "panel"):
        for name in ("text", "muted", "link", "good", "busy", "bad"):
            value = contrast(colors[name], colors[back])
            check(value >= 4.5, f"{scheme}: --{name} on --{back} has contrast {value:.2f}, below 4.5")
        for name in (n for n in colors if re.fullmatch(r"c\d", n)):
            value = contrast(colors[name], colors["panel"])
            check(value >= 2.2, f"{scheme}: --{name} on --panel has contrast {value:.2f}, below 2.2")
outside = re.sub(r":root \{.*?\}", "", css, flags=re.DOTALL)
check(not re.search(r"#[0-9a-f]{3,8}\b|rgba?\(|\b(color|background): (?!var|inherit|currentColor|transparent)\w", outside),
      "style.css has a color outside its two palettes")

for name, text in (("live.html", html), ("style.css", css), ("script.js", js)):
    links = set(re.findall(r"\w+://[^\s\"')]*", text)) - {"http://www.w3.org/2000/svg"}
    check(not links, f"{name} names other places: {links}")
check(not re.search(r"@import|url\(", css), "style.css loads something")
check(not re.search(r"\sstyle=|\son\w+=|<style|<script(?! src=)|javascript:", html), "live.html has what the policy forbids")
for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "createContextualFragment", "eval(", "Function(",
             "setAttribute('style'", "srcdoc"):
    check(word not in js, f"script.js uses {word}: names must stay text")
ids = re.findall(r'\bid="([\w-]+)"', html)
check(len(ids) == len(set(ids)), "an id is there twice")
for used in re.findall(r"(?:\$|say)\('([\w-]+)'|new Chart\('([\w-]+)'", js):
    check("".join(used) in ids, f"script.js uses the element {''.join(used)}, which live.html lacks")
check('lang="en"' in html and "<title>" in html and 'name="viewport"' in html, "language, title and viewport")

for problem in problems:
    print("FAILED:", problem)
print(f"{len(ids)} elements, {len(palettes())} palettes")
sys.exit(1 if problems else 0)
