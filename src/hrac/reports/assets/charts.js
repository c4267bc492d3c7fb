"use strict";
// Charts by Plotly, in the colours of the page.

const find = (id) => document.getElementById(id);

const make = (kind, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(kind), properties);
  element.append(...children);
  return element;
};

// Plotly reads tags and entities in texts; here they are plain.
const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const COLOURS = 10;
const groupColour = (group) => colour(`g${group.colour % COLOURS}`);
const groupDash = (group) => (group.colour < COLOURS ? "solid" : "dot");
const faint = (hex, alpha) => `rgba(${rgb(hex).join(",")},${alpha})`;

const shown = { groups: new Set(), seeds: new Set() };
const charts = []; // functions that draw one each
const redraw = () => charts.forEach((draw) => draw());

function card(parent, title, ...meaning) {
  const chart = make("div", { className: "chart" });
  const texts = meaning.filter(Boolean).map((text) => make("p", {}, text));
  parent.append(make("div", { className: "card" }, make("h4", {}, title), ...texts, chart));
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", `${title}. ${meaning.filter(Boolean).join(" ")}`);
  return chart;
}

function layout(extra) {
  const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("grid"), automargin: true };
  const narrow = window.innerWidth < 700;
  const { xaxis, yaxis, ...rest } = extra;
  return {
    margin: { l: 48, r: 12, t: 26, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("text"), family: "system-ui, sans-serif", size: 13 },
    hoverlabel: { bgcolor: colour("page"), bordercolor: colour("line"), font: { color: colour("text") }, namelength: -1 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("quiet"), activecolor: colour("text") },
    showlegend: false,
    dragmode: narrow ? false : "zoom",
    xaxis: { ...axis, fixedrange: narrow, ...xaxis },
    yaxis: { ...axis, fixedrange: narrow, ...yaxis },
    ...rest,
  };
}

// Only buttons that need no network: Plotly's own list has one that uploads the chart.
const CONFIG = { displaylogo: false, responsive: true, modeBarButtons: [["toImage", "resetScale2d"]] };

const plot = (element, traces, extra) => Plotly.react(element, traces, layout(extra), CONFIG);

// The axis of environment steps. Around a single one Plotly would make up fractions of steps.
function stepsAxis(traces) {
  const steps = new Set(traces.flatMap((trace) => trace.x).filter((step) => step !== null));
  const title = { text: "environment steps" };
  if (steps.size !== 1) return { title };
  return { title, tickvals: [...steps], ticktext: [...steps].map((step) => step.toLocaleString("en")) };
}

// One metric of the groups of a task: a line and a band for each, and a thin line for each chosen seed.
function curve(parent, name, metric, members) {
  const having = members.filter(({ group }) => group.charts[name]);
  const without = members.filter(({ group }) => !group.charts[name]).map(({ group }) => group.label);
  const missing = without.length > 3 ? `${without.length} of ${members.length} methods did not log it.` : `Not logged: ${without.join(", ")}.`;
  const element = card(parent, metric.title, metric.meaning, without.length ? missing : "");
  charts.push(() => {
    const visible = having.filter(({ index }) => shown.groups.has(index));
    // One box for all methods tells most, but of many it would hide the chart.
    const together = window.innerWidth >= 700 && visible.length < 6 && !shown.seeds.size;
    const traces = visible.flatMap((member) => lines(name, metric, member, together ? "" : ", step %{x:,}"));
    const low = Math.min(...traces.flatMap((trace) => trace.y).filter((value) => value !== null));
    const floor = low > 0.5 ? low - 0.03 : -0.03;
    const yaxis = metric.share ? { tickformat: "~%", range: [floor, 1 + 0.03 * (1 - floor)] } : {}; // no tick above 100 %
    plot(element, traces, { hovermode: together ? "x unified" : "closest", xaxis: stepsAxis(traces), yaxis });
  });
}

function lines(name, metric, { group }, when) {
  const chart = group.charts[name];
  const [line, digits] = [groupColour(group), metric.share ? ".1%" : ".4~g"];
  const traces = [];
  if (chart.interval) {
    const [low, high] = chart.interval;
    traces.push({
      x: [...chart.steps, ...[...chart.steps].reverse()],
      y: [...high, ...[...low].reverse()],
      fill: "toself", fillcolor: faint(line, 0.18), line: { width: 0 }, mode: "lines", hoverinfo: "skip", meta: "band",
    });
  }
  const seeds = chart.seeds.map((seed, i) => [seed, chart.values[i]]).filter(([seed]) => shown.seeds.has(seed));
  if (seeds.length) {
    traces.push({
      x: seeds.flatMap(() => [...chart.steps, null]),
      y: seeds.flatMap(([, values]) => [...values, null]),
      text: seeds.flatMap(([seed]) => [...chart.steps, 0].map(() => String(seed))),
      mode: "lines", line: { color: faint(line, 0.55), width: 1, dash: groupDash(group) }, meta: "seeds",
      hovertemplate: `${plain(group.label)}, seed %{text}: %{y:${digits}}${when}<extra></extra>`,
    });
  }
  const between = chart.interval ? ` (%{customdata[0]:${digits}} to %{customdata[1]:${digits}})` : "";
  traces.push({
    x: chart.steps, y: chart.middle, name: plain(group.label), meta: "middle",
    mode: chart.steps.length > 1 ? "lines" : "markers", line: { color: line, width: 2.5, dash: groupDash(group) },
    customdata: chart.interval ? chart.steps.map((_, i) => chart.interval.map((bound) => bound[i])) : undefined,
    hovertemplate: `${plain(group.label)}: %{y:${digits}}${between}${when}<extra></extra>`,
  });
  return traces;
}

const ENDING_COLOURS = { success: "target", "on the back": "g2", "ended early": "g3", stuck: "g1", "out of time": "g5" };

// How episodes ended: a bar for each group.
function endings(parent, members) {
  const having = members.filter(({ group }) => group.endings);
  const causes = [...new Set(having.flatMap(({ group }) => Object.keys(group.endings)))];
  const element = card(parent, "Endings of episodes", "Shares of all episodes: success, then failures by cause.");
  charts.push(() => {
    const visible = having.filter(({ index }) => shown.groups.has(index)).reverse();
    element.style.height = `${110 + 34 * visible.length}px`;
    const traces = causes.map((cause) => ({
      type: "bar", orientation: "h", name: plain(cause), y: visible.map(({ group }) => plain(group.label)),
      x: visible.map(({ group }) => group.endings[cause] ?? 0), marker: { color: colour(ENDING_COLOURS[cause] ?? "g4") },
      hovertemplate: `%{y}, ${plain(cause)}: %{x:.1%}<extra></extra>`,
    }));
    const legend = { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" };
    plot(element, traces, {
      barmode: "stack", showlegend: true, legend, margin: { l: 10, r: 12, t: 40, b: 30 },
      xaxis: { tickformat: "~%", range: [0, 1] }, yaxis: { type: "category" },
    });
  });
}

// Where the time of each run went, and its speed over training.
function times(parent, runs) {
  const phases = [...new Set(runs.flatMap((run) => Object.keys(run.time.phases)))];
  const visible = () => runs.filter((run) => shown.groups.has(run.group));
  const bars = card(parent, "Minutes by phase", "All seeds of a folder together.");
  charts.push(() => {
    const some = visible().reverse();
    bars.style.height = `${150 + 34 * some.length}px`;
    const traces = phases.map((phase, i) => ({
      type: "bar", orientation: "h", name: phase, y: some.map((run) => plain(run.name)),
      x: some.map((run) => run.time.phases[phase] / 60), marker: { color: colour(["g9", "g4", "g0"][i % 3]) },
      hovertemplate: `%{y}, ${phase}: %{x:.1f} min<extra></extra>`,
    }));
    const legend = { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" };
    plot(bars, traces, {
      barmode: "stack", showlegend: true, legend, margin: { l: 10, r: 12, t: 60, b: 40 },
      xaxis: { title: { text: "minutes" } }, yaxis: { type: "category" },
    });
  });
  const speed = card(parent, "Speed", "Environment steps per second, all seeds of a folder together, evaluations included.");
  charts.push(() => {
    const traces = visible().map((run) => ({
      x: run.time.steps, y: run.time.speed, mode: run.time.steps.length > 1 ? "lines" : "markers", name: plain(run.name),
      line: { color: groupColour(data.groups[run.group]), width: 2, dash: groupDash(data.groups[run.group]) },
      hovertemplate: `${plain(run.name)}: %{y:,.0f}<extra></extra>`,
    }));
    plot(speed, traces, { hovermode: "closest", xaxis: stepsAxis(traces), yaxis: { rangemode: "tozero" } });
  });
}
