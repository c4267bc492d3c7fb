"use strict";
// Builds the page from its data. Texts are set as texts, never as HTML.

const data = JSON.parse(find("data").textContent);
const tasks = [...new Set(data.groups.map((group) => group.task))];
const several = tasks.length > 1;
const members = data.groups.map((group, index) => ({ group, index }));
const named = (group) => (several ? `${group.task}, ${group.label}` : group.label);
let player = null;

function theme(name) {
  document.documentElement.dataset.theme = name;
  find("theme").textContent = name === "dark" ? "Light" : "Dark";
  redraw();
  player?.go(player.step);
}

function navigation() {
  find("title").textContent = data.title;
  for (const heading of document.querySelectorAll("main > section:not([hidden]) > h2")) {
    find("sections").append(make("a", { href: `#${heading.parentElement.id}` }, heading.textContent));
  }
  find("theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

function problems() {
  find("problems").hidden = !data.problems.length;
  find("problems").querySelector("ul").append(...data.problems.map((problem) => make("li", {}, problem)));
}

// A table: a header, rows of texts, and how many columns are names.
function table({ title, header, rows, names }) {
  const cell = (kind, text, column) => make(kind, column >= names ? { className: "number" } : {}, text);
  const head = make("tr", {}, ...header.map((text, column) => cell("th", text, column)));
  const body = rows.map((row) => make("tr", {}, ...row.map((text, column) => cell("td", text, column))));
  const caption = title ? [make("caption", {}, title)] : [];
  return make("table", {}, ...caption, make("thead", {}, head), make("tbody", {}, ...body));
}

function scrolling(child, label) {
  const box = make("div", { className: "scroll", tabIndex: 0 }, child);
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  return box;
}

function runs() {
  const facts = [...new Set(data.runs.flatMap((run) => run.facts.map(([name]) => name)))];
  const value = (run, fact) => run.facts.filter(([name]) => name === fact).map(([, text]) => text).join("; ");
  const rows = data.runs.map((run) => [run.name, ...facts.map((fact) => value(run, fact))]);
  const header = ["run", ...facts];
  const upright = header.map((name, column) => [name, ...rows.map((row) => row[column])]);
  const [first, ...others] = rows.length > 2 ? [header, ...rows] : upright;
  find("runs").querySelector("table").replaceWith(table({ title: "", header: first, rows: others, names: Infinity }));
  settings();
}

// Where each run differs from the settings of its method.
function settings() {
  const place = find("settings");
  const having = (wanted) => data.runs.filter((run) => wanted(run.differences)).map((run) => run.name);
  const listed = (names, text) => names.length && place.append(make("p", {}, `${text}: ${names.join(", ")}.`));
  listed(having((changed) => changed?.length === 0), "The settings of their method in all that changes results");
  listed(having((changed) => changed === null), "The settings of their method are not known for these");
  for (const run of data.runs.filter(({ differences }) => differences?.length)) {
    const count = `${run.differences.length} ${run.differences.length === 1 ? "difference" : "differences"}`;
    const inside = table({ title: "", header: ["setting", "the method's", "here"], rows: run.differences, names: 3 });
    const summary = make("summary", {}, `${run.name}: ${count} from the settings of its method`);
    place.append(make("details", { open: data.runs.length < 3 }, summary, scrolling(inside, "Settings")));
  }
}

function checkbox(text, checked, changed, ...before) {
  const box = make("input", { type: "checkbox", checked });
  box.onchange = () => changed(box.checked);
  return make("label", {}, box, ...before, text);
}

const flip = (set, value, present) => (present ? set.add(value) : set.delete(value));

function choices() {
  for (const { group, index } of members) {
    shown.groups.add(index);
    const swatch = make("span", { className: "swatch" });
    const style = groupDash(group) === "solid" ? "solid" : "dashed";
    charts.push(() => Object.assign(swatch.style, { borderTopColor: groupColour(group), borderTopStyle: style }));
    const changed = (present) => {
      flip(shown.groups, index, present);
      redraw();
      panels();
    };
    find("methods").append(checkbox(named(group), true, changed, swatch));
  }
  const all = data.groups.flatMap((group) => Object.values(group.charts).flatMap((chart) => chart.seeds));
  const seeds = [...new Set(all)].sort((a, b) => a - b);
  const place = find("seeds").querySelector("fieldset");
  const boxes = seeds.map((seed) => checkbox(String(seed), false, (present) => (flip(shown.seeds, seed, present), redraw())));
  const every = checkbox("all", false, (present) => {
    boxes.forEach((label) => (label.querySelector("input").checked = present));
    seeds.forEach((seed) => flip(shown.seeds, seed, present));
    redraw();
  });
  place.append(every, ...boxes);
  find("seeds").hidden = !seeds.length;
}

function sections() {
  for (const [section, metrics] of Object.entries(data.sections)) {
    const place = find(section).querySelector(".charts");
    for (const task of tasks) {
      const ours = members.filter(({ group }) => group.task === task);
      const present = Object.entries(metrics).filter(([name]) => ours.some(({ group }) => group.charts[name]));
      if (several) place.append(make("h3", {}, task));
      if (!present.length) place.append(make("p", {}, "Nothing of this is logged in these runs."));
      for (const [name, metric] of present) curve(place, name, metric, ours);
    }
  }
  const failures = find("failures").querySelector(".charts");
  for (const task of tasks) {
    const ours = members.filter(({ group }) => group.task === task);
    if (several) failures.append(make("h3", {}, task));
    if (ours.some(({ group }) => group.endings)) endings(failures, ours);
    else failures.append(make("p", {}, "No success is logged in these runs, so there are no failures."));
  }
  const timed = data.runs.filter((run) => run.time);
  if (timed.length) times(find("duration").querySelector(".charts"), timed);
  else find("duration").append(make("p", {}, "There is no timing.csv in these runs."));
}

function comparison() {
  const place = find("tables");
  if (data.comparison) {
    for (const one of data.comparison.tables) {
      const shown = scrolling(table(one), one.title);
      place.append(one.rows.length > 12 ? make("details", {}, make("summary", {}, one.title), shown) : shown);
    }
    place.append(make("ul", {}, ...data.comparison.notes.map((note) => make("li", {}, note))));
  }
  const reason = data.comparison ? "Why runs are shown one by one: " : "There is no comparison: ";
  place.append(...data.refusals.slice(0, 1).map((refusal) => make("p", {}, reason + refusal)));
}

function panels() {
  if (!player) return;
  for (const panel of player.panels) panel.root.hidden = !shown.groups.has(panel.group.index);
  player.go(player.step);
}

function episodes() {
  const having = members.filter(({ index }) => data.policies.some((policy) => policy.group === index));
  const without = members.filter((member) => !having.includes(member)).map(({ group }) => named(group));
  if (without.length) {
    find("unplayed").hidden = false;
    find("unplayed").textContent = `No episodes of ${without.join("; ")}: no policies were given that can be played.`;
  }
  if (!having.length) return;
  find("controls").hidden = false;
  const changed = () => player.go(player.step);
  const made = having.map(({ group, index }) => {
    const own = data.policies.filter((policy) => policy.group === index);
    return new Panel({ ...group, index }, own, changed);
  });
  find("panels").append(...made.map((panel) => panel.root));
  const maps = data.policies.flatMap((policy) => policy.episodes.flatMap((episode) => episode.maps));
  const letters = new Set(maps.flatMap((map) => (map.marks ?? []).map(([letter]) => letter)));
  const some = (has) => data.policies.some(has);
  const there = {
    learned: some(({ embedding }) => embedding),
    exact: some(({ truth }) => truth?.exact),
    estimate: some(({ truth }) => truth && !truth.exact),
  };
  for (const item of document.querySelectorAll("[data-if]")) {
    const part = item.dataset.if;
    item.hidden = !(there[part] ?? (letters.has(part) || maps.some((map) => map[part]?.length)));
  }
  player = new Player(made);
}

// A link to a step: report.html#step-43.
function linked() {
  const step = /^#step-(\d+)$/.exec(window.location.hash);
  if (!step || !player) return;
  player.go(Number(step[1]));
  find("player").scrollIntoView();
}

problems();
runs();
choices();
sections();
comparison();
episodes();
navigation();
const dark = window.matchMedia("(prefers-color-scheme: dark)");
dark.onchange = () => theme(dark.matches ? "dark" : "light");
theme(dark.matches ? "dark" : "light");
linked();
window.onhashchange = linked;
let width = window.innerWidth;
window.onresize = () => {
  if (width === window.innerWidth) return;
  width = window.innerWidth;
  player?.go(player.step);
};
