"""A browser at one page: what every case watches, and what cases ask of a page.

A case fails if the page logs an error, throws, or asks anybody but its server."""

import json
import os
import shutil
import urllib.request
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

from playwright.sync_api import expect, sync_playwright

# The CI machine may be busy with builds: this long a page may take for anything.
PATIENCE_MS = 60_000
WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}

expect.set_options(timeout=PATIENCE_MS)


def executable():
    names = ["chromium-headless-shell", "chromium"]
    found = os.environ.get("BIZRQ_BROWSER") or next(filter(None, map(shutil.which, names)), None)
    assert found, "no browser: run tests/browser.sh"
    return found


def ask(server, path, token=None):
    """What the API answers at a path."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(server + path, headers=headers)) as answer:
        return json.load(answer)


def ask_all(server, path, name, token=None):
    """The list of all pages."""
    page = ask(server, path, token)
    lines = page[name]
    while page.get("next"):
        page = ask(server, f"{path}{'&' if '?' in path else '?'}page={page['next']}", token)
        lines += page[name]
    return lines


@contextmanager
def opened(server, path="/", viewport=None, errors=(), **context):
    """A page of `server` in a browser of its own. `errors`: what the browser may log, where a case provokes it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable())
        page = browser.new_context(viewport=viewport or WIDE, **context).new_page()
        page.set_default_timeout(PATIENCE_MS)
        wrong, asked = [], []
        page.on("pageerror", lambda error: wrong.append(f"thrown: {error}"))
        page.on("console", lambda line: wrong.append(line.text) if line.type in ("error", "warning") else None)
        page.on("request", lambda request: asked.append(request.url))
        page.asked = asked
        try:
            page.goto(server + path)
            yield page
        except BaseException:
            folder = os.environ.get("BIZRQ_SCREENSHOTS")
            if folder:
                page.screenshot(path=os.path.join(folder, "failed.png"), full_page=True)
            print("asked:", *asked[-20:], "wrong:", *wrong, sep="\n  ")
            raise
        finally:
            browser.close()
        wrong = [line for line in wrong if not any(known in line for known in errors)]
        assert not wrong, wrong
        elsewhere = [url for url in asked if urlsplit(url).netloc != urlsplit(server).netloc]
        assert asked and not elsewhere, elsewhere


def group(page, name):
    """Chooses a group by a click, and waits until it is shown."""
    items = page.locator("#tree [role=treeitem]")
    expect(items.first).to_be_visible()
    items.nth(items.evaluate_all("all => all.map((item) => item.dataset.group)").index(name)).click()
    shown(page, name)


def all_of(page, button, lines):
    """Every line of a list: `button` is clicked until it goes."""
    while page.get_by_role("button", name=button).count():
        before = lines.count()
        page.get_by_role("button", name=button).click()
        expect(lines.nth(before)).to_be_attached()
        expect(page.locator("button.plain:disabled")).to_have_count(0)
    return lines


def shown(page, name):
    expect(page.locator("#group h2").first).to_have_text(name or "(no group)")
    expect(page.locator("#group")).to_have_attribute("aria-busy", "false")


def address(name):
    return "/v1/quotas/" + quote(name, safe="")


# Text that is seen, with the contrast of its colour against what lies behind it.
CONTRASTS = """() => {
  const channels = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (top, below) => {
    const mix = (name) => top[name] * top.a + below[name] * (1 - top.a);
    return { r: mix("r"), g: mix("g"), b: mix("b"), a: 1 };
  };
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const layer = channels(getComputedStyle(at).backgroundColor);
      layers.unshift(layer);
      if (layer.a === 1) break;
    }
    return layers.reduce((below, layer) => over(layer, below), { r: 255, g: 255, b: 255, a: 1 });
  };
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const [text, node] = [walker.currentNode.textContent.trim(), walker.currentNode.parentElement];
    if (!text || !node.checkVisibility() || ["SCRIPT", "NOSCRIPT", "TITLE", "title"].includes(node.tagName)) continue;
    const style = getComputedStyle(node);
    const ground = behind(node);
    const ink = over(channels(node instanceof SVGElement ? style.fill : style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), text]);
  }
  return found;
}"""
