"""The page in a real browser, case by case. Numbers on it are those of the API.

    python page.py CASE SERVER [SERVER ...]   with tests/browser.sh run before; tests/it/api/browser.rs says which servers
    python page.py                            the names of all cases"""

import sys

from browser import CONTRASTS, PHONE, WIDE, address, ask, ask_all, expect, group, opened, shown

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def groups(server, token=None):
    return ask_all(server, "/v1/quotas", "groups", token)


def cut(text):
    """A number as the page writes it: thousands apart, two decimals cut off."""
    whole, _, rest = text.partition(".")
    sign, whole = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    parts = []
    while whole:
        whole, part = whole[:-3], whole[-3:]
        parts.insert(0, part)
    rest = rest[:2].rstrip("0")
    return sign + "\u202f".join(parts) + (f".{rest}" if rest else "")


def assert_row(line, row):
    """A line of the table of limits says what the API says: whole in titles, cut where it is read."""
    cells = line.locator("td")
    for at, field in enumerate(["hard", "used", "left", "selfUsed"], 1):
        text, cell = row[field], cells.nth(at)
        if text is None:
            expect(cell).to_have_text("–")
            continue
        expect(cell).to_have_attribute("title", text)
        expect(cell).to_have_text(cut(text) if row["key"].startswith("cash/") else text)
    if row["consumedHours"] == "0":
        expect(cells.nth(5)).to_have_text("–")
    else:
        expect(cells.nth(5)).to_have_attribute("title", f"{row['consumedHours']} {row['unit']}-hours")


@case
def numbers_are_those_of_the_api(server):
    told = groups(server)
    assert sum(len(group["keys"]) for group in told) > 20
    with opened(server) as page:
        expect(page.locator("#tree [role=treeitem]")).to_have_count(len(told))
        names = page.locator("#tree [role=treeitem]").evaluate_all("all => all.map((item) => item.dataset.group)")
        assert names == [group["group"] for group in told], names
        for one in told:
            group(page, one["group"])
            lines = page.locator("#group tr[data-key]")
            expect(lines).to_have_count(len(one["keys"]))
            for line, row in zip(lines.all(), one["keys"]):
                expect(line).to_have_attribute("data-key", row["key"])
                assert_row(line, row)


@case
def hours_by_model_are_those_of_the_api(server):
    with opened(server) as page:
        group(page, "vision")
        bars = page.locator("#group svg.chart rect title").all_text_contents()
        begin = "2026-11-02T00:00:00Z"
        usage = f"/v1/usage?group=vision&scope=subtree&by=day&from={begin}&limit=10000"
        lines = {f"{line['from'][:10]} {line['key']}: {line['hours']} {line['unit']}-hours" for line in ask_all(server, usage, "lines")}
        assert len(bars) > 20 and set(bars) <= lines, set(bars) - lines
        assert any(".A100: " in bar for bar in bars), bars


@case
def the_keyboard_reaches_everything(server):
    told = [group["group"] for group in groups(server)]
    with opened(server) as page:
        expect(page.locator("#tree [role=treeitem]")).to_have_count(len(told))
        page.locator("#find").focus()
        page.keyboard.press("Tab")
        here = page.locator("#tree :focus")
        expect(here).to_have_count(1)
        page.keyboard.press("Home")
        expect(here).to_have_attribute("data-group", told[0])
        for name in told[1:4]:
            page.keyboard.press("ArrowDown")
            expect(here).to_have_attribute("data-group", name)
        page.keyboard.press("ArrowUp")
        expect(here).to_have_attribute("data-group", told[2])
        outline = here.evaluate("node => getComputedStyle(node).outlineStyle")
        assert outline == "solid", outline
        page.keyboard.press("Enter")
        shown(page, told[2])
        expect(here).to_have_attribute("aria-selected", "true")
        page.keyboard.press("End")
        expect(here).to_have_attribute("data-group", told[-1])


@case
def a_group_is_found_by_a_part_of_its_name(server):
    with opened(server) as page:
        page.locator("#find").fill("LANG")
        expect(page.locator("#tree [role=treeitem]")).to_have_count(1)
        expect(page.locator("#tree [role=treeitem]")).to_contain_text("language")
        page.locator("#find").fill("")
        expect(page.locator("#tree [role=treeitem]")).to_have_count(len(groups(server)))


@case
def nothing_is_wider_than_a_phone(server):
    told = groups(server)
    for viewport in [PHONE, WIDE]:
        with opened(server, viewport=viewport) as page:
            for one in told:
                group(page, one["group"])
                wide = page.evaluate("document.scrollingElement.scrollWidth")
                assert wide <= viewport["width"], f"{one['group']} is {wide} px wide of {viewport['width']}"


@case
def texts_stand_out_in_dark_and_in_light(server):
    grounds = set()
    for scheme in ["dark", "light"]:
        with opened(server, color_scheme=scheme) as page:
            for one in groups(server):
                group(page, one["group"])
                found = page.evaluate(CONTRASTS)
                assert len(found) > 50, found
                faint = [line for line in found if line[0] < 4.5]
                assert not faint, f"{scheme}, {one['group']}: {faint}"
            grounds.add(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
    assert len(grounds) == 2, grounds


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(*CASES, sep="\n")
    else:
        CASES[sys.argv[1]](*sys.argv[2:])
