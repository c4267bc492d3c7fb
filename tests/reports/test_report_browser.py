"""Reports in a real browser: headless Chromium, driven by Playwright. docs/testing.md says what it needs."""

import json
import shutil

import numpy as np
import pytest
from playwright.sync_api import expect

import hrac
from hrac.adjacency import network
from hrac.envs import palette
from hrac.view.colours import COLOURS, METHODS, ON_DARK
from reports.browser import CHROMIUM, started
from reports.report_runs import renamed, with_policies, written

DESKTOP, PHONE = 1280, 390
EVIL = '</script><img src=x onerror="window.broken=1"><script>window.broken=2</script>'

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")


def rows(*values):
    """Two evaluations of each seed, with what a log of a grid world has."""
    shares = {"eval/success": 0.5, "eval/failed_stuck": 0.3, "eval/failed_out_of_time": 0.2, "eval/subgoal_within_k": 0.9}
    numbers = {**shares, "adjacency/accuracy": 0.95}
    return [
        (seed, step, name, number)
        for seed, value in enumerate(values)
        for step in (0, 10_000)
        for name, number in {"eval/return": value, **numbers}.items()
    ]


@pytest.fixture(scope="module")
def browser():
    with started() as opened:
        yield opened


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    first = with_policies(folder / "hrac", rows(1, 2))
    second = renamed(shutil.copytree(first, folder / "no-adj"), method="no-adj")
    shutil.copy(written(folder / "log", rows(3, 5)) / "metrics.csv", second)
    return [first, second]


@pytest.fixture(scope="module")
def report(folders):
    return hrac.report(folders, folders[0].parent / "report.html", episodes=2)


class Seen:
    """A page, and all that went wrong in it."""

    def __init__(self, browser, path, width=DESKTOP, scheme="light", fragment="", chart=".js-plotly-plot"):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.wrong, self.requests = [], []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{path.as_uri()}#{fragment}")
        self.page.wait_for_selector(chart)

    def __enter__(self):
        return self.page

    def __exit__(self, *_):
        self.page.wait_for_timeout(50)
        self.context.close()
        assert self.wrong == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))] == []
        assert len([url for url in self.requests if url.startswith("file:")]) == 1


def at(page, panel=0):
    """What a panel of the player shows: its step, the subgoal's point and the agent's place."""
    shown = page.locator(".map").nth(panel)
    return (
        int(shown.get_attribute("data-step")),
        json.loads(shown.get_attribute("data-target")),
        json.loads(shown.get_attribute("data-here")),
    )


def wait_for_step(page, least):
    """Playing takes time. The page forbids the way by which Playwright would wait for it."""
    for _ in range(200):
        if at(page)[0] >= least:
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"step {at(page)[0]}, not {least}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_it_opens_from_disk_without_errors_or_requests_and_fits(browser, report, tmp_path, width, scheme):
    with Seen(browser, report, width, scheme) as page:
        assert page.title() == "maze: hrac, no-adj"
        assert page.locator("h2:visible").all_inner_texts() == [
            *("What was run", "Learning curves", "Episodes", "Subgoals", "Adjacency network", "Failures by cause"),
            *("Comparison", "Where the time went"),
        ]
        assert page.locator(".js-plotly-plot").count() == 7
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        ten = ON_DARK if scheme == "dark" else COLOURS
        swatches = page.locator(".swatch").evaluate_all("all => all.map((one) => one.style.borderTopColor)")
        assert swatches == [f"rgb{tuple(bytes.fromhex(ten[METHODS.index(name)][1:]))}" for name in ("hrac", "no-adj")]
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert page.evaluate(LOW_CONTRAST) == []


LOW_CONTRAST = """() => {
  const parts = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = parts(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return [r, g, b];
    }
  };
  const bad = [];
  const path = "//body//*[not(self::script or self::style or self::option)]/text()[normalize-space()]";
  const texts = document.evaluate(path, document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE);
  for (let i = 0; i < texts.snapshotLength; i++) {
    const element = texts.snapshotItem(i).parentElement;
    if (!element.checkVisibility() || element.closest(".star, .skip, .modebar")) continue;
    const style = getComputedStyle(element);
    const [first, second] = [light(parts(element.closest("svg") ? style.fill : style.color)), light(behind(element))];
    const contrast = (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
    if (contrast < 4.5) bad.push([element.tagName, element.textContent.slice(0, 30), contrast]);
  }
  return bad;
}"""


def test_the_subgoal_that_is_shown_is_the_recorded_one(browser, report, folders):
    policy = hrac.load(folders[1], 0)
    episode, _ = policy.player.watch(0)
    space = policy.setup.space
    with Seen(browser, report) as page:
        for step in (0, 3, 4, 9):
            page.locator("#scrub").fill(str(step))
            shown, target, here = at(page, panel=1)
            assert shown == step
            np.testing.assert_allclose(here, space.phi(episode.obs[step]))
            np.testing.assert_allclose(target, space.target(episode.subgoal[step], space.phi(episode.obs[step])), atol=1e-4)
            words = f"({target[0]:.2f}, {target[1]:.2f}), number {step // 4 + 1}, proposed at step {step // 4 * 4}"
            assert words in page.locator(".reading").nth(1).inner_text()


COLOURS_SHOWN = """(map) => {
  const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
  const shown = new Set();
  for (let i = 0; i < data.length; i += 4) shown.add(data.slice(i, i + 3).join());
  return [...shown];
}"""


def test_the_map_has_the_colours_of_pictures_and_films(browser, report):
    with Seen(browser, report) as page:
        shown = set(page.locator(".map").first.evaluate(COLOURS_SHOWN))
        for name in ("WALL", "TARGET", "AGENT", "SUBGOAL", "EDGE"):
            assert ",".join(map(str, getattr(palette, name))) in shown, name


def test_a_link_opens_the_player_at_a_step(browser, report):
    with Seen(browser, report, fragment="step-7") as page:
        assert at(page)[0] == 7
        expect(page.locator("#play")).to_be_in_viewport()


def test_the_player_plays_and_stops_at_the_end(browser, report):
    with Seen(browser, report) as page:
        page.locator("#speed").select_option("5")
        page.locator("#play").click()
        wait_for_step(page, 2)
        page.locator("#play").click()
        stopped = at(page)[0]
        page.wait_for_timeout(300)
        assert at(page)[0] == stopped
        page.locator("#speed").select_option("50")
        page.locator("#play").click()
        expect(page.locator("#play")).to_have_text("Play")
        end = int(page.locator("#scrub").get_attribute("max"))
        assert page.locator("#time").inner_text() == f"step {end} of {end}"


def test_the_player_is_scrubbed_by_mouse(browser, report):
    with Seen(browser, report) as page:
        page.locator("#scrub").scroll_into_view_if_needed()
        box = page.locator("#scrub").bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 8, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, middle, steps=4)
        page.mouse.up()
        assert at(page)[0] == pytest.approx(10, abs=1)
        page.locator("#after").click()
        page.locator("#later").click()
        assert at(page)[0] == 12


def test_the_player_is_driven_by_keys(browser, report):
    with Seen(browser, report) as page:
        page.locator("#scrub").focus()
        expected = {"ArrowRight": 1, "PageDown": 4, "ArrowLeft": 3, "PageUp": 0, "End": 20, "Home": 0}
        for key, step in expected.items():
            page.keyboard.press(key)
            assert at(page)[0] == step, key
        page.keyboard.press("Space")
        wait_for_step(page, 2)
        page.keyboard.press("Space")
        assert page.locator("#play").inner_text() == "Play"


def test_keys_are_the_players_while_it_is_on_the_screen(browser, report):
    with Seen(browser, report) as page:
        for key in ("Space", "End"):  # it is not seen yet
            page.keyboard.press(key)
            page.wait_for_timeout(300)
            assert page.evaluate("window.scrollY") > 0, key
            assert (at(page)[0], page.locator("#play").inner_text()) == (0, "Play")
            page.keyboard.press("Home")
            page.wait_for_timeout(300)
        page.get_by_role("link", name="Episodes").click()
        page.keyboard.press("End")
        assert at(page)[0] == 20
        page.keyboard.press("Home")
        page.keyboard.press("Alt+ArrowRight")  # the browser's own
        assert at(page)[0] == 0
        page.keyboard.press("Space")
        wait_for_step(page, 2)
        page.keyboard.press("Space")
        assert page.locator("#play").inner_text() == "Play"


def test_a_control_that_has_the_focus_keeps_its_keys(browser, report):
    with Seen(browser, report) as page:
        box = page.get_by_label("hrac", exact=True)
        page.get_by_role("link", name="Episodes").click()
        box.focus()
        page.keyboard.press("Space")
        assert not box.is_checked()
        page.locator("#after").focus()
        page.keyboard.press("Space")
        assert (at(page, panel=1)[0], page.locator("#play").inner_text()) == (1, "Play")
        page.locator("#speed").focus()
        page.keyboard.press("End")
        assert (at(page, panel=1)[0], page.locator("#speed").input_value()) == (1, "50")


def test_the_player_goes_from_subgoal_to_subgoal_of_all_panels(browser, tmp_path):
    folders = [with_policies(tmp_path / str(k), rows(1), seeds=1, k=k) for k in (10, 4)]
    with Seen(browser, hrac.report(folders, tmp_path / "report.html", episodes=1)) as page:
        page.locator("#scrub").focus()
        for keys, steps in (("PageDown", (4, 8, 10, 12, 16, 20)), ("PageUp", (16, 12, 10, 8, 4, 0))):
            for step in steps:
                page.keyboard.press(keys)
                assert at(page)[0] == step


def test_a_point_of_the_map_tells_both_distances(browser, report, folders):
    policy = hrac.load(folders[0], 0)
    episode, _ = policy.player.watch(0)
    here = policy.setup.space.phi(episode.obs[0])
    with Seen(browser, report) as page:
        shown = page.locator(".map").first
        shown.scroll_into_view_if_needed()
        box = shown.bounding_box()
        # A map of 5 x 5 cells: the centre of the one in the fourth row and second column is (3, 1).
        shown.click(position={"x": box["width"] * 1.5 / 5, "y": box["height"] * 3.5 / 5})
        told = page.locator(".probe").first.inner_text()
        distance = float(network.distance(policy.actors.embedding, here, np.array([3.0, 1.0], np.float32)))
        assert "Point (3.0" in told
        assert float(told.split("learned ")[1].split(",")[0]) == pytest.approx(distance, abs=2e-3)
        assert "true 6 steps, beyond k" in told
        before = page.locator(".probe").first.inner_text()
        page.keyboard.press("ArrowRight")  # the map has the focus
        assert page.locator(".probe").first.inner_text() != before
        assert at(page)[0] == 0
        shown.click(position={"x": box["width"] * 0.5 / 5, "y": box["height"] * 3.5 / 5})  # in the wall beside it
        assert "true 6 steps (to the nearest free cell), beyond k" in page.locator(".probe").first.inner_text()
        page.keyboard.press("Escape")
        assert "Click a point" in page.locator(".probe").first.inner_text()


OUTSIDE_OF_THE_LINE = """() => {
  const [panel] = player.panels;
  const wrong = [];
  for (let step = 0; step <= panel.length; step++) {
    panel.draw(step);
    const { here, map, window } = panel.at(step);
    const steps = panel.truth.from(here);
    const { values, first, low, columns } = panel.truth.squares(map);
    const within = (point) => {
      const [column, row] = panel.drawing.place(point).map((part) => Math.floor(part * FINE));
      const cell = values[(row - low) * columns + column - first];
      return cell >= 0 && steps[cell] <= panel.policy.k;
    };
    const told = panel.distances(here, window.target);
    const [free, near] = [!told.includes("nearest free cell"), told.endsWith("within k")];
    if (!within(here)) wrong.push([step, "agent", here]);
    if (free && within(window.target) !== near) wrong.push([step, told, window.target]);
  }
  return wrong;
}"""


def test_the_line_of_true_steps_holds_the_agent_and_agrees_with_the_text(browser, report, tmp_path):
    point = hrac.report("point-maze", tmp_path / "point.html", episodes=1)
    for path, estimate in ((point, True), (report, False)):
        with Seen(browser, path, chart=".map") as page:
            assert page.evaluate(OUTSIDE_OF_THE_LINE) == []
            told = [text for text in page.locator(".legend li:visible").all_inner_texts() if "truly within k steps" in text]
            assert [", an estimate" in text for text in told] == [estimate]


STRIP = """() => {
  const map = { extent: [-4, 4, -4, 4], across: 0, walls: [[-4, -4, 8, 2], [-4, 2, 8, 2]] };
  const cells = [-1, 0, 1].map((y) => [0, y]); // as in mazes of blocks of 4: the strip from 1.5 to the wall is in none
  const { columns, first, low, values } = new Truth({ exact: false, cells, from: [], steps: "" }).squares(map);
  return [-2.1, -1.9, 1.4, 1.9, 2.1].map((y) => values[(Math.floor(y * FINE) - low) * columns - first]);
}"""


def test_a_strip_along_a_wall_belongs_to_the_nearest_cell(browser, report):
    with Seen(browser, report) as page:
        assert page.evaluate(STRIP) == [-1, 0, 2, 2, -1]


def kinds(page):
    """The traces of the chart of returns."""
    chart = "[...document.querySelectorAll('#curves .card')].find((card) => card.innerText.startsWith('Return'))"
    return page.evaluate(f"{chart}.querySelector('.chart').data.map((trace) => [trace.meta, trace.name ?? '', trace.y.length])")


def test_methods_and_seeds_are_switched_on_and_off(browser, report):
    with Seen(browser, report) as page:
        assert [kind for kind, *_ in kinds(page)] == ["band", "middle", "band", "middle"]
        page.get_by_label("hrac", exact=True).click()
        assert [name for kind, name, _ in kinds(page) if kind == "middle"] == ["no-adj"]
        assert page.locator(".panel:visible").count() == 1
        page.get_by_label("hrac", exact=True).click()
        page.locator("#seeds summary").click()
        page.get_by_label("1", exact=True).click()
        assert [points for kind, _, points in kinds(page) if kind == "seeds"] == [3, 3]  # two evaluations and a gap
        page.get_by_label("all", exact=True).click()
        assert [points for kind, _, points in kinds(page) if kind == "seeds"] == [6, 6]
        page.get_by_label("all", exact=True).click()
        assert "seeds" not in [kind for kind, *_ in kinds(page)]


def test_no_axis_of_shares_goes_beyond_all(browser, report):
    with Seen(browser, report) as page:
        ticks = [text for text in page.locator(".ytick text").all_text_contents() if text.endswith("%")]
        assert "100%" in ticks
        assert max(float(text[:-1]) for text in ticks) == 100


def test_ticks_are_not_repeated_and_no_fractions_of_steps(browser, tmp_path):
    shares = [(0, step, "eval/subgoal_judged_adjacent", 0.999) for step in (0, 10_000)]
    several = written(tmp_path / "several", [*rows(1), *shares])
    once = written(
        tmp_path / "once", [row for row in [*rows(1), *shares] if row[1]], timing=[(0, 1.0, 0.0), (10_000, 3.0, 5000.0)]
    )
    with Seen(browser, hrac.report(several, tmp_path / "several.html")) as page:
        chart = page.locator("#subgoals .card", has_text="Judged within k steps")
        ticks = chart.locator(".ytick text").all_text_contents()
        assert len(ticks) > 2
        assert len(set(ticks)) == len(ticks)
    with Seen(browser, hrac.report(once, tmp_path / "once.html")) as page:
        charts = page.locator(".card", has=page.locator(".xtitle", has_text="environment steps"))
        assert charts.count() == 6
        assert charts.locator(".xtick text").all_text_contents() == ["10,000"] * 6


def test_the_settings_are_those_of_the_method(browser, tmp_path):
    folders = [written(tmp_path / "a", rows(1), "hrac-plus"), written(tmp_path / "b", rows(1), changes={"manager.eta": 5.0})]
    with Seen(browser, hrac.report(folders, tmp_path / "report.html")) as page:
        told = page.locator("#settings").inner_text()
        assert "The settings of their method in all that changes results: a." in told
        assert "b: 1 difference from the settings of its method" in told
        assert "paper" not in told


def test_hovering_tells_the_mean_and_its_interval(browser, report):
    with Seen(browser, report) as page:
        chart = page.locator("#curves .card", has_text="Return").locator(".nsewdrag").first
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + 3, box["y"] + box["height"] / 2)
        told = page.locator(".hoverlayer")
        told.get_by_text("hrac: 1.5 (1 to 2)").wait_for()


def test_no_button_of_a_chart_sends_it_anywhere(browser, report):
    with Seen(browser, report) as page:
        buttons = page.locator("#curves .modebar-btn").evaluate_all("(all) => all.map((one) => one.dataset.title)")
        assert set(buttons) == {"Download plot as a PNG", "Reset axes"}
        picture = page.evaluate("Plotly.toImage(document.querySelector('.js-plotly-plot'), {width: 300, height: 200})")
        assert picture.startswith("data:image/png;base64,")


def test_light_and_dark_are_switched(browser, report):
    with Seen(browser, report) as page:
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        assert page.locator("#theme").inner_text() == "Light"
        assert page.evaluate(LOW_CONTRAST) == []


def test_html_in_names_is_text(browser, tmp_path):
    folder = renamed(written(tmp_path / "<img src=x onerror='window.broken=1'>", rows(1, 2)), task=EVIL, method=EVIL)
    (folder / "metrics.csv").write_text((folder / "metrics.csv").read_text() + EVIL)
    with Seen(browser, hrac.report(folder, tmp_path / "report.html")) as page:
        assert page.evaluate("window.broken") is None
        assert page.locator("img").count() == 0
        assert EVIL in page.locator("#runs").inner_text()
        assert page.locator("#title").inner_text().startswith(EVIL)


def test_a_report_of_a_damaged_folder_says_what_is_missing_and_shows_the_rest(browser, folders, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(folders[0], damaged)
    (damaged / "policy" / "seed-0.safetensors").write_bytes(b"")
    (damaged / "timing.csv").unlink()
    with (damaged / "metrics.csv").open("a") as file:
        file.write("0,20000,eval/re")
    with Seen(browser, hrac.report([damaged, folders[1]], tmp_path / "report.html", episodes=1)) as page:
        told = page.locator("#problems").inner_text()
        assert "ends in the middle of a line" in told
        assert "timing.csv" in told
        assert "seed-0.safetensors" in told
        assert [kind for kind, *_ in kinds(page)] == ["band", "middle", "band", "middle"]
        assert page.locator(".panel").count() == 2


def test_logs_alone_have_no_player(browser, tmp_path):
    with Seen(browser, hrac.report(written(tmp_path / "run", rows(1, 2)), tmp_path / "report.html")) as page:
        assert page.locator("#controls").is_hidden()
        assert "No episodes of hrac" in page.locator("#unplayed").inner_text()
