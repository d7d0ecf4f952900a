"""The page in a real browser, case by case. Numbers on it are those of the API.

    python page.py CASE SERVER [SERVER ...]   with tests/browser.sh run before; tests/it/api/browser.rs says which servers
    python page.py                            the names of all cases"""

import sys
from urllib.parse import quote

from browser import CONTRASTS, PATIENCE_MS, PHONE, WIDE, address, all_of, ask, ask_all, expect, group, opened, shown

CARDS = "cash/limits.nvidia.com/gpu"
# What a browser logs of an answer that asks for another token.
REFUSED = "the server responded with a status of 40"

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
    cells = line.locator("th, td")
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
def branches_are_opened_and_closed(server):
    told = groups(server)
    top = next(one for one, below in zip(told, told[1:]) if below["depth"] > one["depth"])
    with opened(server) as page:
        items = page.locator("#tree [role=treeitem]")
        expect(items).to_have_count(len(told))
        branch = page.locator(f"#tree [data-group='{top['group']}']")
        expect(branch).to_have_attribute("aria-expanded", "true")
        branch.locator(".turn").click()
        expect(branch).to_have_attribute("aria-expanded", "false")
        assert items.count() < len(told)
        branch.focus()
        page.keyboard.press("ArrowRight")
        expect(items).to_have_count(len(told))
        page.keyboard.press("ArrowLeft")
        expect(branch).to_have_attribute("aria-expanded", "false")


@case
def ten_thousand_groups_can_be_walked_and_found(server):
    told = groups(server)
    assert len(told) >= 10_000, len(told)
    least = min(one["depth"] for one in told)
    for viewport in [WIDE, PHONE]:
        with opened(server, viewport=viewport) as page:
            items = page.locator("#tree [role=treeitem]")
            expect(items.first).to_be_visible()
            assert items.count() < 600, items.count()
            # One by one: a branch, what is below it, and a group there.
            closed = page.locator("#tree [aria-expanded=false]").last
            name = closed.get_attribute("data-group")
            closed.focus()
            page.keyboard.press("ArrowRight")
            expect(page.locator(f"#tree [data-group='{name}']")).to_have_attribute("aria-expanded", "true")
            below = [one["group"] for one in told if one["parent"] == name]
            assert below and least == 0
            expect(page.locator(f"#tree [data-group='{below[0]}']")).to_be_attached()
            assert items.count() < 600, items.count()
            # Many at once: a button adds some more.
            page.locator("#find").fill("team-")
            expect(page.locator("#tree-more")).to_be_visible()
            before = items.count()
            assert before < 600, before
            page.locator("#tree-more").click()
            expect(items.nth(before)).to_be_attached()
            assert items.count() <= before + 300
            # By its name.
            one = told[-7]
            page.locator("#find").fill(one["group"])
            expect(items).to_have_count(1)
            items.click()
            shown(page, one["group"])
            for line, row in zip(page.locator("#group tr[data-key]").all(), one["keys"]):
                assert_row(line, row)
            # It is in sight once nothing is looked for any more.
            page.locator("#find").fill("")
            expect(page.locator(f"#tree [data-group='{one['group']}']")).to_have_attribute("aria-selected", "true")
            assert page.evaluate("document.querySelectorAll('*').length") < 6000


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
def texts_stand_out_in_dark_and_in_light(server, tenants):
    grounds = set()
    for scheme in ["dark", "light"]:
        with opened(server, color_scheme=scheme) as page:
            for one in groups(server):
                group(page, one["group"])
                assert_stands_out(page, scheme)
            page.get_by_role("slider", name="State at").press("Home")
            expect(page.locator("#past-state")).to_contain_text("As it stood then")
            assert_stands_out(page, scheme)
            grounds.add(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        with opened(tenants, color_scheme=scheme, errors=[REFUSED]) as page:
            page.get_by_label("Token", exact=True).fill("token of nobody")
            page.get_by_label("Token", exact=True).press("Enter")
            expect(page.get_by_role("alert")).to_contain_text("not known")
            assert_stands_out(page, scheme, least=8)
    assert len(grounds) == 2, grounds


def assert_stands_out(page, scheme, least=50):
    found = page.evaluate(CONTRASTS)
    assert len(found) >= least, found
    faint = [line for line in found if line[0] < 4.5]
    assert not faint, (scheme, page.url, faint)


@case
def what_is_left_is_drawn_as_the_api_says(server):
    with opened(server) as page:
        for name, key in [("language", CARDS), ("research", CARDS), ("acme", CARDS)]:
            group(page, name)
            points = ask(server, f"/v1/burndown?group={name}&key={key}&by=hour")["points"]
            days = [point for point in points if "T00:00:00.000Z" in point["at"]]
            assert len(days) == 14, days
            page.locator(f'[data-keep="numbers of {key}"] summary').click()
            lines = page.locator(f'[data-keep="{key} in numbers"] tbody tr')
            expect(lines).to_have_count(len(days))
            for line, day in zip(lines.all(), days):
                expect(line.locator("td").nth(1)).to_have_attribute("title", day["used"])
                expect(line.locator("td").nth(2)).to_have_attribute("title", day["left"])
            row = next(row for row in ask(server, address(name))["keys"] if row["key"] == key)
            assert (points[-1]["used"], points[-1]["left"]) == (row["used"], row["left"])
            end = row["exhaustedAt"]
            expect(page.locator(f'.verdict time[title="{end}"]')).to_contain_text(end[:19].replace("T", " "))


@case
def pods_that_run_are_those_of_the_api(*servers):
    shown_pods = 0
    for server in servers:
        with opened(server) as page:
            for name in [one["group"] for one in groups(server)]:
                group(page, name)
                pods = ask_all(server, f"/v1/pods?group={quote(name, safe='')}&scope=subtree", "pods")
                lines = all_of(page, "More pods", page.locator("tr[data-pod]"))
                expect(lines).to_have_count(len(pods))
                told = lines.evaluate_all("""all => all.map((line) => [line.dataset.pod, line.cells[1].textContent,
                    Object.fromEntries(line.cells[3].title.split("\\n").map((pair) => pair.split(" "))), line.cells[4].title])""")
                assert told == [[pod["uid"], pod["group"] or "(no group)", pod["held"], pod["from"]] for pod in pods], name
                shown_pods = max(shown_pods, len(pods))
    assert shown_pods > 50, shown_pods


def refusals(page, count):
    """So many refusals: older ones are asked for until they are there."""
    lines = page.locator(".refusals li")
    while lines.count() < count:
        before = lines.count()
        page.get_by_role("button", name="Older refusals").click()
        expect(lines.nth(before)).to_be_attached()
        expect(page.locator("button.plain:disabled")).to_have_count(0)
    return lines


@case
def refusals_are_those_of_the_api_with_their_reasons(*servers):
    shown_refusals = 0
    for server in servers:
        with opened(server) as page:
            for name in [one["group"] for one in groups(server)]:
                group(page, name)
                path = f"/v1/refusals?group={quote(name, safe='')}&scope=subtree"
                expected = ask_all(server, path, "refusals")
                told = refusals(page, len(expected)).evaluate_all("""all => all.map((line) => [line.querySelector("time").dateTime,
                    ...[".reason", ".who", ":scope > .what"].map((part) => line.querySelector(part).textContent)])""")
                for line, one in zip(told, expected, strict=True):
                    assert [line[0], line[1], line[3]] == [one["last"], one["reason"], one["message"]], (line, one)
                    assert one["workload"]["name"] in line[2] and one["group"] in line[2], (line, one)
                shown_refusals = max(shown_refusals, len(expected))
    assert shown_refusals > 20, shown_refusals


@case
def the_slider_shows_any_past_state(server):
    with opened(server) as page:
        group(page, "language")
        slider = page.get_by_role("slider", name="State at")
        slider.focus()
        page.keyboard.press("Home")
        expect(page.locator("#past-state")).to_contain_text("As it stood then")
        page.keyboard.press("End")
        expect(page.locator("#past-state")).to_have_text("")
        for _ in range(100):
            page.keyboard.press("ArrowLeft")
        at = "2026-11-11T20:00:00.000Z"
        expect(slider).to_have_attribute("aria-valuetext", "2026-11-11 20:00 UTC")
        expect(page).to_have_url(f"{server}/#group=language&at={at.replace(':', '%3A')}")
        assert_state(page, server, at, "language")
        # A link to an instant is enough, and it is any instant.
        other = "2026-11-06T10:37:12.345Z"
        page.goto(f"{server}/#group=search&at={other}")
        page.reload()
        assert_state(page, server, other, "search")
        page.get_by_label("Instant, UTC").fill("2026-11-09T06:30")
        page.get_by_label("Instant, UTC").press("Tab")
        assert_state(page, server, "2026-11-09T06:30:00.000Z", "search")
        page.get_by_role("button", name="Now", exact=True).click()
        shown(page, "search")
        expect(page.locator("#past-state")).to_have_text("")
        for line, row in zip(page.locator("#group tr[data-key]").all(), ask(server, address("search"))["keys"]):
            assert_row(line, row)


def assert_state(page, server, at, name):
    """The page shows the tree and a group as they stood."""
    state = ask(server, f"/v1/state?at={at}")
    expect(page.locator("#past-state")).to_contain_text(f"position {state['position']}.")
    shown(page, name)
    names = page.locator("#tree [role=treeitem]").evaluate_all("all => all.map((item) => item.dataset.group)")
    assert names == [group["group"] for group in state["groups"]], (at, names)
    one = next(group for group in state["groups"] if group["group"] == name)
    lines = page.locator("#group tr[data-key]")
    expect(lines).to_have_count(len(one["keys"]))
    for line, row in zip(lines.all(), one["keys"]):
        assert_row(line, row)
    for instant in page.locator(".refusals time").evaluate_all("all => all.map((time) => time.dateTime)"):
        assert instant <= at, (instant, at)
    pods = ask_all(server, f"/v1/pods?group={name}&scope=subtree&at={at}&limit=50", "pods")
    told = page.locator("tr[data-pod]").evaluate_all("all => all.map((line) => line.dataset.pod)")
    assert told == [pod["uid"] for pod in pods[:50]], at


@case
def who_has_a_token_enters_it_and_sees_their_subtree(server):
    token = "token of research"
    with opened(server, errors=[REFUSED]) as page:
        expect(page.get_by_role("heading", name="This server asks for a token")).to_be_visible()
        expect(page.locator("#house")).to_be_hidden()
        expect(page.get_by_label("Token", exact=True)).to_be_focused()
        page.keyboard.type("token of nobody")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("This token is not known here.")
        expect(page.get_by_label("Token", exact=True)).to_be_focused()
        page.keyboard.type(token)
        page.keyboard.press("Enter")
        expect(page.locator("#house")).to_be_visible()
        expect(page.locator("#door")).to_be_hidden()
        told = groups(server, token)
        assert [one["group"] for one in told] == ["research", "language", "sweeps", "vision"]
        expect(page.locator("#tree [role=treeitem]")).to_have_count(len(told))
        for one in told:
            group(page, one["group"])
            for line, row in zip(page.locator("#group tr[data-key]").all(), one["keys"]):
                assert_row(line, row)
        expect(page.locator("#feed-state")).to_have_text("live")
        expect(page.locator("#feed li").first).to_be_visible()
        text = page.locator("body").inner_text()
        assert "acme" not in text and "products" not in text and token not in text
        kept = page.evaluate("[location.href, document.cookie, localStorage.length, history.length]")
        assert token not in str(kept) and kept[2] == 0, kept
        assert not [url for url in page.asked if "token" in url], page.asked
        page.reload()
        expect(page.locator("#tree [role=treeitem]")).to_have_count(len(told))
        page.get_by_role("button", name="Forget the token").click()
        expect(page.locator("#door")).to_be_visible()
        text = page.locator("body").inner_text()
        assert "research" not in text and "language" not in text, text
        assert page.evaluate("sessionStorage.length") == 0
        page.reload()
        expect(page.locator("#door")).to_be_visible()


@case
def a_group_narrows_what_a_token_shows(server):
    with opened(server, viewport=PHONE, errors=[REFUSED]) as page:
        expect(page.locator("#door")).to_be_visible()
        assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
        page.get_by_label("Token", exact=True).fill("token of language")
        page.get_by_label("Group", exact=True).fill("research")
        page.get_by_role("button", name="Look").click()
        expect(page.get_by_role("alert")).to_contain_text("research")
        expect(page.get_by_label("Group", exact=True)).to_be_focused()
        page.get_by_label("Token", exact=True).fill("ключ")
        page.get_by_role("button", name="Look").click()
        expect(page.get_by_role("alert")).to_contain_text("ASCII")
        page.get_by_label("Token", exact=True).fill("token of *")
        page.get_by_label("Group", exact=True).fill("language")
        page.get_by_role("button", name="Look").click()
        expect(page.locator("#tree [role=treeitem]")).to_have_count(1)
        expect(page.locator("#whom")).to_have_text("with a token, of language")
        shown(page, "language")


@case
def a_budget_that_begins_anew_says_in_which_period_it_is(server):
    with opened(server) as page:
        for name in ["fund", "fund-a", "fund-b"]:
            group(page, name)
            one = ask(server, address(name))
            row = next(row for row in one["keys"] if row["key"] == "cash/limits.cpu")
            line = page.locator('[data-period="cash/limits.cpu"]')
            times = line.locator("time").evaluate_all("all => all.map((time) => time.dateTime)")
            assert times == [row["period"]["from"], row["period"]["to"]] == ["2026-11-15T23:00:00.000Z", "2026-11-22T23:00:00.000Z"], times
            expect(line).to_contain_text("16 Nov 2026, 00:00 to 23 Nov 2026, 00:00 Europe/Berlin")
            expect(line).to_contain_text("every week; what is left or used beyond it goes over, at most 50\u202f% of hard")
            expect(line.locator("span").first).to_have_attribute("title", row["carried"])
            words = "were overspent before" if row["carried"].startswith("-") else "were carried over"
            expect(line.locator("span").first).to_have_text(f"{cut(row['carried'].lstrip('-'))} core-hours {words}")
            assert_row(page.locator('#group tr[data-key="cash/limits.cpu"]'), row)
        carried = {name: ask(server, address(name))["keys"][-1]["carried"] for name in ["fund-a", "fund-b"]}
        assert float(carried["fund-a"]) > 0 > float(carried["fund-b"]), carried


@case
def hostile_names_are_texts(server):
    told = groups(server)
    hostile = [one["group"] for one in told if not one["group"].startswith("fund")]
    assert len(hostile) >= 8, hostile
    with opened(server, viewport=PHONE) as page:
        dialogs = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        items = page.locator("#tree [role=treeitem]")
        expect(items).to_have_count(len(told))
        names = items.evaluate_all("all => all.map((item) => item.dataset.group)")
        assert names == [one["group"] for one in told]
        for name in hostile:
            items.nth(names.index(name)).click()
            shown(page, name)
            expect(page.locator("#group .bad").first).to_be_attached()
            expect(page.locator("tr[data-pod]").first).to_be_attached()
            strange = page.evaluate("document.querySelectorAll('img, iframe, object, body script, [onerror], [onclick]').length")
            wide = page.evaluate("document.scrollingElement.scrollWidth")
            assert (strange, wide <= PHONE["width"]) == (0, True), (name, strange, wide)
        page.locator("#tree [role=treeitem]").nth(names.index("fund")).click()
        shown(page, "fund")
        refused = ask_all(server, "/v1/refusals?group=fund&scope=subtree", "refusals")
        lines = refusals(page, len(refused)).locator("> .what")
        texts = lines.evaluate_all("all => all.map((text) => text.textContent)")
        assert texts == [one["message"] for one in refused], texts
        assert set(hostile) & set(texts), texts
        strange = page.evaluate("document.querySelectorAll('img, iframe, object, body script, [onerror], [onclick]').length")
        assert strange == 0, strange
        assert not dialogs, dialogs


@case
def a_server_that_does_not_answer_is_told_of_and_asked_again(server):
    with opened(server, errors=["net::ERR_CONNECTION_REFUSED", "503"]) as page:
        group(page, "shop")
        page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
        page.locator('#tree [data-group="search"]').click()
        expect(page.locator("#group")).to_have_text("The server does not answer.")
        page.unroute("**/v1/**")
        group(page, "language")
        waits = []

        def busy_once(route):
            waits.append(route.request.url)
            if len(waits) > 1:
                return route.fallback()
            problem = {"status": 503, "detail": "the log is read, now at 7 of 9 records; come again"}
            route.fulfill(status=503, headers={"retry-after": "1", "content-type": "application/problem+json"}, json=problem)

        page.route("**/v1/state?**", busy_once)
        page.get_by_role("slider", name="State at").press("Home")
        expect(page.locator("#past-state")).to_have_text("the log is read, now at 7 of 9 records; come again")
        expect(page.locator("#past-state")).to_contain_text("As it stood then")
        assert len(waits) == 2, waits


@case
def what_comes_is_shown_while_one_looks(server):
    with opened(server) as page:
        group(page, "fund-a")
        expect(page.locator("#feed-state")).to_have_text("live")
        pods = lambda: page.locator("tr[data-pod]").count()
        before = (pods(), int(page.locator("#feed .pos").first.inner_text()))
        page.locator("#find").focus()
        page.wait_for_function(f"() => document.querySelectorAll('tr[data-pod]').length > {before[0] + 1}", timeout=PATIENCE_MS)
        expect(page.locator("#find")).to_be_focused()
        positions = [int(text) for text in page.locator("#feed .pos").all_inner_texts()]
        assert positions[0] > before[1] and positions == list(range(positions[0], positions[-1] - 1, -1)), positions
        # What is looked at stays: an instant of the past does not move with the log.
        page.goto(f"{server}/#group=fund-a&at=2026-11-18T12:00:00.000Z")
        expect(page.locator("#past-state")).to_contain_text("As it stood then")
        shown(page, "fund-a")
        still = page.locator("#past-state").inner_text()
        newest = int(page.locator("#feed .pos").first.inner_text())
        page.wait_for_function(f"() => Number(document.querySelector('#feed .pos').textContent) > {newest + 3}", timeout=PATIENCE_MS)
        expect(page.locator("#past-state")).to_have_text(still)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(*CASES, sep="\n")
    else:
        CASES[sys.argv[1]](*sys.argv[2:])
