"use strict";
// The episode player: one clock, and a panel with a map for each method.

const point = (numbers) => `(${numbers.map((number) => number.toFixed(2)).join(", ")})`;

class Panel {
  // `policies` are those of one method; `changed` is called when another episode is chosen.
  constructor(group, policies, changed) {
    Object.assign(this, { group, policies, probed: null });
    this.options = policies.flatMap((policy) => policy.episodes.map((episode) => ({ policy, episode })));
    this.root = make("figure", { className: "panel" });
    this.root.append(make("figcaption", {}, named(group)));
    this.select = make("select", { ariaLabel: `episode of ${named(group)}` });
    this.options.forEach(({ policy, episode }, i) => {
      const total = episode.rewards.reduce((sum, reward) => sum + reward, 0);
      const end = episode.ending.startsWith("return") ? episode.ending : `${episode.ending}, return ${total.toFixed(1)}`;
      const best = policy.best === null ? "" : ` (best at step ${policy.best.toLocaleString("en")})`;
      const text = `seed ${policy.seed}${best}, episode ${episode.seed}: ${end}`;
      this.select.append(make("option", { value: i }, text));
    });
    this.select.onchange = () => {
      this.probed = null;
      changed();
    };
    const canvas = make("canvas", { tabIndex: 0, className: "map" });
    canvas.setAttribute("role", "application");
    this.canvas = canvas;
    this.drawing = new MapCanvas(canvas);
    this.words = make("dl", { className: "reading" });
    this.found = make("p", { className: "probe" });
    this.found.setAttribute("aria-live", "polite");
    this.root.append(this.select, make("div", { className: "frame" }, canvas), this.words, this.found);
    canvas.onclick = (event) => this.probe(this.drawing.position(event.offsetX, event.offsetY));
    canvas.onkeydown = (event) => this.move(event);
  }

  get policy() {
    return this.options[this.select.value].policy;
  }

  get episode() {
    return this.options[this.select.value].episode;
  }

  get length() {
    return this.episode.rewards.length;
  }

  // The networks of a policy, made when they are first needed.
  get learned() {
    const { policy } = this;
    if (policy.embedding && !policy.learned) policy.learned = new Adjacency(policy.embedding);
    return policy.learned;
  }

  get truth() {
    const { policy } = this;
    if (policy.truth && !policy.known) policy.known = new Truth(policy.truth);
    return policy.known;
  }

  // The embeddings of all points of the heat. Coordinates beyond the second are those of the agent, in tenths.
  heat(map, here) {
    const rest = here.slice(2).map((number) => Math.round(10 * number) / 10);
    const key = JSON.stringify([map.extent, map.across, rest]);
    const { policy } = this;
    if (policy.heatKey !== key) {
      const grid = MapCanvas.grid(map);
      const points = Float64Array.from(grid.points.flatMap((both) => [...both, ...rest]));
      Object.assign(policy, { heatKey: key, grid, embedded: this.learned.target.embed(points, grid.points.length) });
    }
    return policy;
  }

  // The first embeddings take part of a second. The page is shown before them.
  prepare(map, here) {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      this.heat(map, here);
      this.draw(this.step);
    });
  }

  // What is true at a step.
  at(step) {
    const { episode, policy, length } = this;
    const time = Math.min(step, length);
    const now = Math.floor(Math.min(time, length - 1) / policy.k);
    const total = episode.rewards.slice(0, time).reduce((sum, reward) => sum + reward, 0);
    const map = episode.maps[episode.map_at[Math.min(time, episode.map_at.length - 1)]];
    return { time, total, map, here: episode.positions[time], now, window: episode.windows[now], over: time === length };
  }

  draw(step) {
    this.step = step;
    const { drawing, episode, policy } = this;
    const { time, here, map, window, now } = this.at(step);
    drawing.begin(map);
    if (policy.embedding && !policy.grid) this.prepare(map, here);
    else if (policy.embedding) {
      const { grid, embedded } = this.heat(map, here);
      const distances = this.learned.from(here, embedded);
      drawing.heat(grid, distances, policy.threshold);
      drawing.contour(grid, distances, policy.threshold);
    }
    const steps = this.truth?.from(here);
    if (steps) drawing.region(this.truth.squares(map), (cell) => cell >= 0 && steps[cell] <= policy.k);
    drawing.scene();
    if (window) drawing.aim(here, window.target);
    drawing.path(episode.positions.slice(0, time + 1));
    for (const past of episode.windows.slice(0, now)) drawing.past(past.target, past.arrived !== null);
    if (window) drawing.star(window.target);
    drawing.agent(here);
    if (this.probed) drawing.probe(this.probed);
    this.tell(step);
  }

  // Learned and true distance from the agent to a point, in words.
  distances(here, there) {
    const { policy, truth } = this;
    const words = [];
    if (this.learned) {
      const learned = this.learned.between(here, [...there, ...here.slice(there.length)]);
      const side = learned < policy.threshold ? "within" : "beyond";
      words.push(`learned ${learned.toFixed(3)}, judged ${side} k = ${policy.k} (limit ${policy.threshold.toFixed(2)})`);
    }
    const nearest = truth?.nearest(there);
    const steps = truth?.from(here)?.[nearest];
    if (steps !== undefined) {
      const far = steps === NO_WAY ? "no way" : `${steps} ${steps === 1 ? "step" : "steps"}`;
      const where = this.drawing.free(there) ? "" : " (to the nearest free cell)";
      words.push(`${truth.exact ? "true" : "true (estimate)"} ${far}${where}, ${steps <= policy.k ? "within" : "beyond"} k`);
    }
    return words.join("; ") || "no distances are known";
  }

  // In the environment's own units.
  outside(position) {
    const { scale, centre } = this.policy;
    return position.map((part, axis) => part * scale[axis] + centre[axis]);
  }

  tell(step) {
    const { episode, length, policy } = this;
    const { time, here, total, window, now, over } = this.at(step);
    const past = episode.windows.slice(0, now);
    const reached = past.filter((one) => one.arrived !== null).length;
    const rows = [
      ["step", `${time} of ${length}${over ? `: ${episode.ending}` : ""}`],
      ["return so far", total.toFixed(2)],
      ["agent", point(this.outside(here))],
    ];
    if (window) {
      const fate = window.arrived !== null && window.arrived <= time ? `, reached at step ${window.arrived}` : over ? ", missed" : "";
      const beyond = this.drawing.outside(window.target) ? ", outside of the map" : "";
      const place = point(this.outside(window.target));
      rows.push(["subgoal", `${place}${beyond}, number ${now + 1}, proposed at step ${window.start}${fate}`]);
      rows.push(["its distance", this.distances(here, window.target)]);
      rows.push(["before it", `${reached} reached (${policy.reach}), ${past.length - reached} missed`]);
    } else rows.push(["subgoal", "this method has none"]);
    this.words.replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    Object.assign(this.canvas.dataset, { step: time, target: JSON.stringify(window?.target ?? null), here: JSON.stringify(here) });
    this.canvas.setAttribute("aria-label", `Map. ${rows.map((row) => row.join(" ")).join(". ")}`);
    this.found.textContent = this.probed
      ? `Point ${point(this.outside(this.probed))}: ${this.distances(here, this.probed)}`
      : "Click a point of the map to read its distances from the agent.";
  }

  probe(position) {
    this.probed = position;
    this.draw(this.step);
  }

  // Arrow keys move the point while the map has the focus.
  move(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Escape" && this.probed) this.probe(null);
    else if (moves[event.key]) {
      const [x, y] = this.drawing.pixel(this.probed ?? this.at(this.step).here);
      const [dx, dy] = moves[event.key];
      const [column, row] = [x + dx * this.drawing.width * 0.02, y + dy * this.drawing.width * 0.02];
      const { width, height } = this.drawing;
      this.probe(this.drawing.position(Math.min(Math.max(column, 0), width), Math.min(Math.max(row, 0), height)));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

class Player {
  constructor(panels) {
    Object.assign(this, { panels, step: 0, timer: null });
    this.slider = find("scrub");
    this.button = find("play");
    this.speed = find("speed");
    this.slider.oninput = () => this.go(Number(this.slider.value));
    this.button.onclick = () => this.toggle();
    this.speed.onchange = () => this.timer && (this.stop(), this.play());
    find("before").onclick = () => this.go(this.step - 1);
    find("after").onclick = () => this.go(this.step + 1);
    find("earlier").onclick = () => this.go(this.earlier);
    find("later").onclick = () => this.go(this.later);
    document.onkeydown = (event) => this.key(event);
  }

  get shown() {
    return this.panels.filter((panel) => !panel.root.hidden);
  }

  // The last step before this one at which a subgoal is proposed in any panel, and the next one. Panels may differ in k.
  get earlier() {
    const starts = this.shown.map(({ policy, length }) => (Math.ceil(Math.min(this.step, length) / policy.k) - 1) * policy.k);
    return Math.max(...starts, 0);
  }

  get later() {
    const starts = this.shown.map(({ policy, length }) => [(Math.floor(this.step / policy.k) + 1) * policy.k, length]);
    return Math.min(...starts.filter(([start, length]) => start < length).map(([start]) => start), this.length);
  }

  get length() {
    return Math.max(...this.shown.map((panel) => panel.length), 0);
  }

  go(step) {
    const { length } = this;
    this.step = Math.min(Math.max(step, 0), length);
    this.slider.max = length;
    this.slider.value = this.step;
    find("time").textContent = `step ${this.step} of ${length}`;
    for (const panel of this.shown) panel.draw(this.step);
    if (this.step === length) this.stop();
  }

  toggle() {
    if (this.timer) this.stop();
    else this.play();
  }

  play() {
    if (this.step >= this.length) this.go(0);
    this.timer = setInterval(() => this.go(this.step + 1), 1000 / Number(this.speed.value));
    this.button.textContent = "Pause";
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "Play";
  }

  // Whether at least half of the maps is seen, or they fill half of the screen.
  get onScreen() {
    const { top, bottom } = find("panels").getBoundingClientRect();
    const seen = Math.min(bottom, window.innerHeight) - Math.max(top, 0);
    return seen > Math.min(bottom - top, window.innerHeight) / 2;
  }

  // Keys are the player's while it is on the screen or has the focus, unless what has the focus uses them itself.
  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!this.onScreen && !find("player").contains(event.target)) return;
    const pressed = event.key === " " ? ", button, input:not(#scrub), summary" : "";
    if (event.target.closest(`select, .scroll${pressed}`)) return;
    const steps = {
      ArrowLeft: this.step - 1,
      ArrowRight: this.step + 1,
      PageUp: this.earlier,
      PageDown: this.later,
      Home: 0,
      End: this.length,
    };
    if (event.key === " ") this.toggle();
    else if (event.key in steps) this.go(steps[event.key]);
    else return;
    event.preventDefault();
  }
}
