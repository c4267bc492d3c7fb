"use strict";
// The map of an episode on a canvas, in the drawing coordinates of its sketch. It looks as in pictures and films: colours are those
// of hrac.envs.palette, marks those of hrac.scenes.drawing.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const EDGE = "#202020"; // of marks that are as light on a dark page
const MARKS = { G: "target", K: "key", C: "chest" };
const GRID = 76; // points of the heat along the longer side
const FINE = 4; // squares of a region along a cell of size 1

class MapCanvas {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
  }

  // Make room for a map, and clear it.
  begin(map) {
    const [left, right, bottom, top] = map.extent;
    const across = right - left;
    const along = Math.abs(top - bottom);
    const width = Math.min(this.canvas.parentElement.clientWidth, 620, (560 * across) / along);
    const height = (width * along) / across;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    Object.assign(this, { map, width, height, unit: width / across });
    this.context.fillStyle = colour("floor");
    this.context.fillRect(0, 0, width, height);
  }

  x(x) {
    return (x - this.map.extent[0]) * this.unit;
  }

  y(y) {
    const [, , bottom, top] = this.map.extent;
    return ((y - top) / (bottom - top)) * this.height;
  }

  // Drawing coordinates of a position of goal space.
  place(position) {
    const { across } = this.map;
    return [position[across], position[1 - across]];
  }

  pixel(position) {
    const [x, y] = this.place(position);
    return [this.x(x), this.y(y)];
  }

  // The first two coordinates of goal space under a pixel.
  position(pixelX, pixelY) {
    const [left, , bottom, top] = this.map.extent;
    const drawn = [left + pixelX / this.unit, top + (pixelY / this.height) * (bottom - top)];
    const position = [0, 0];
    position[this.map.across] = drawn[0];
    position[1 - this.map.across] = drawn[1];
    return position;
  }

  // Centres of the cells of the heat: columns, rows, and the first two coordinates of each.
  static grid(map) {
    const [left, right, bottom, top] = map.extent;
    const cell = Math.max(right - left, Math.abs(top - bottom)) / GRID;
    const columns = Math.max(Math.round((right - left) / cell), 2);
    const rows = Math.max(Math.round(Math.abs(top - bottom) / cell), 2);
    const points = [];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const drawn = [left + ((column + 0.5) / columns) * (right - left), top + ((row + 0.5) / rows) * (bottom - top)];
        const point = [0, 0];
        point[map.across] = drawn[0];
        point[1 - map.across] = drawn[1];
        points.push(point);
      }
    }
    return { columns, rows, points };
  }

  // Learned distances: coloured up to the threshold, plain beyond it.
  heat(grid, distances, threshold) {
    const [near, edge, beyond] = ["near", "at-k", "beyond"].map((name) => rgb(colour(name)));
    const image = new ImageData(grid.columns, grid.rows);
    distances.forEach((distance, i) => {
      const share = distance / threshold;
      const shown = share >= 1 ? beyond : near.map((part, channel) => part + share * (edge[channel] - part));
      image.data.set([...shown, 255], 4 * i);
    });
    const small = document.createElement("canvas");
    Object.assign(small, { width: grid.columns, height: grid.rows });
    small.getContext("2d").putImageData(image, 0, 0);
    this.context.imageSmoothingEnabled = true;
    this.context.drawImage(small, 0, 0, this.width, this.height);
  }

  // The line where the distances are the threshold (marching squares).
  contour(grid, distances, threshold) {
    const { columns, rows } = grid;
    const at = (column, row) => distances[row * columns + column] - threshold;
    const [stepX, stepY] = [this.width / columns, this.height / rows];
    this.context.beginPath();
    for (let row = 0; row + 1 < rows; row++) {
      for (let column = 0; column + 1 < columns; column++) {
        const corners = [[column, row], [column + 1, row], [column + 1, row + 1], [column, row + 1]];
        const crossed = [];
        corners.forEach(([x, y], i) => {
          const [nextX, nextY] = corners[(i + 1) % 4];
          const [first, second] = [at(x, y), at(nextX, nextY)];
          if (first < 0 === second < 0) return;
          const share = first / (first - second);
          crossed.push([(x + share * (nextX - x) + 0.5) * stepX, (y + share * (nextY - y) + 0.5) * stepY]);
        });
        for (let i = 0; i + 1 < crossed.length; i += 2) {
          this.context.moveTo(...crossed[i]);
          this.context.lineTo(...crossed[i + 1]);
        }
      }
    }
    this.stroke(colour("contour"), 2);
  }

  // Whether a box of drawing coordinates is wholly in a wall. A box without size is a point.
  static inWall(map, x, y, size = 0) {
    return (map.walls ?? []).some(([left, low, width, height]) => {
      return x >= left && y >= low && x + size <= left + width && y + size <= low + height;
    });
  }

  // Whether a position is on the map and in no wall.
  free(position) {
    return !this.outside(position) && !MapCanvas.inWall(this.map, ...this.place(position));
  }

  // The small squares that cover a map, in drawing coordinates: where the first one is, and a value for each from the position of
  // its centre; -1 if it is in a wall.
  static squares(map, value) {
    const [left, right, bottom, top] = map.extent.map((edge) => edge * FINE);
    const [first, low] = [Math.floor(left), Math.floor(Math.min(bottom, top))];
    const [columns, rows] = [Math.ceil(right) - first, Math.ceil(Math.max(bottom, top)) - low];
    const values = new Int32Array(columns * rows).fill(-1);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const [x, y] = [(first + column) / FINE, (low + row) / FINE];
        if (MapCanvas.inWall(map, x, y, 1 / FINE)) continue;
        const centre = [x + 0.5 / FINE, y + 0.5 / FINE];
        values[row * columns + column] = value([centre[map.across], centre[1 - map.across]]);
      }
    }
    return { columns, rows, first, low, values };
  }

  // The outline of the squares whose values are inside.
  region({ columns, rows, first, low, values }, inside) {
    const within = (column, row) => column >= 0 && column < columns && row >= 0 && row < rows && inside(values[row * columns + column]);
    const corner = (column, row) => [this.x((first + column) / FINE), this.y((low + row) / FINE)];
    this.context.beginPath();
    this.edges(columns, rows, (column, row) => within(column, row - 1) !== within(column, row), corner);
    this.edges(rows, columns, (row, column) => within(column - 1, row) !== within(column, row), (row, column) => corner(column, row));
    this.stroke(colour("halo"), 4);
    this.stroke(colour("truth"), 2, [5, 4]);
  }

  // Edges of squares along parallel lines. Those that follow each other are one piece, so that its dashes are even.
  edges(length, lines, present, corner) {
    for (let line = 0; line <= lines; line++) {
      for (let at = 0; at < length; at++) {
        if (!present(at, line)) continue;
        this.context.moveTo(...corner(at, line));
        while (at < length && present(at, line)) at++;
        this.context.lineTo(...corner(at, line));
      }
    }
  }

  // Walls, targets and all that a sketch has.
  scene() {
    const { context, map } = this;
    const fill = (boxes, name) => {
      context.fillStyle = colour(name);
      for (const [x, y, width, height] of boxes ?? []) {
        const [first, second] = [this.y(y), this.y(y + height)];
        const [left, above] = [this.x(x), Math.min(first, second)].map(Math.floor); // whole pixels: no seams between boxes
        const [right, below] = [this.x(x + width), Math.max(first, second)].map(Math.ceil);
        context.fillRect(left, above, right - left, below - above);
      }
    };
    fill(map.chasms, "chasm");
    for (const [x, y, radius] of map.discs ?? []) {
      context.globalAlpha = 0.22;
      this.disc(this.x(x), this.y(y), radius * this.unit, colour("target"));
      context.globalAlpha = 1;
      this.stroke(colour("target"), 2, [6, 4]);
      this.disc(this.x(x), this.y(y), 5, colour("target"), "#ffffff");
    }
    fill(map.walls, "wall");
    fill(map.blocks, "block");
    for (const [x, y, dx, dy] of map.arrows ?? []) {
      fill([[x - 0.5, y - 0.5, 1, 1]], "door");
      const along = map.extent[2] > map.extent[3] ? dy : -dy; // on the screen
      this.arrow(this.x(x), this.y(y), dx, along);
    }
    for (const [letter, x, y] of map.marks ?? []) {
      if (!(letter in MARKS)) continue;
      fill([[x - 0.5, y - 0.5, 1, 1]], MARKS[letter]);
      this.letter(letter, this.x(x), this.y(y));
    }
    for (const [x, y, kind] of map.things ?? []) {
      if (kind === "bomb") this.triangle(this.x(x), this.y(y), 7, colour("bomb"), "#ffffff");
      else this.disc(this.x(x), this.y(y), 6, colour("apple"), "#ffffff");
    }
  }

  path(positions) {
    if (positions.length > 1) {
      this.context.beginPath();
      positions.forEach((position, i) => this.context[i ? "lineTo" : "moveTo"](...this.pixel(position)));
      this.context.lineJoin = "round";
      this.stroke(colour("halo"), 5);
      this.stroke(colour("edge"), 2.5);
    }
    const [x, y] = this.pixel(positions[0]);
    this.context.beginPath();
    this.context.rect(x - 4, y - 4, 8, 8);
    this.context.fillStyle = colour("halo");
    this.context.fill();
    this.stroke(colour("edge"), 2);
  }

  agent(position) {
    const [x, y] = this.pixel(position);
    this.disc(x, y, 9, "#ffffff");
    this.disc(x, y, 7, colour("agent"));
  }

  // A past subgoal: a full disc if it was reached, a cross if it was missed.
  past(target, reached) {
    const [x, y] = this.pixel(target);
    if (reached) this.disc(x, y, 4, colour("subgoal"), EDGE);
    else {
      this.cross(x, y, 4, colour("halo"), 4.5);
      this.cross(x, y, 4, colour("missed"), 2.2);
    }
  }

  outside(target) {
    const [x, y] = this.pixel(target);
    return x < 0 || y < 0 || x > this.width || y > this.height;
  }

  starPlace(target) {
    const [x, y] = this.pixel(target);
    const within = (value, most) => Math.min(Math.max(value, 12), most - 12);
    return this.outside(target) ? [within(x, this.width), within(y, this.height)] : [x, y];
  }

  // The present subgoal; one outside of the map is a hollow star at its border.
  star(target) {
    const outside = this.outside(target);
    const [x, y] = this.starPlace(target);
    this.context.beginPath();
    for (let i = 0; i < 10; i++) {
      const [turn, radius] = [Math.PI * (i / 5 - 0.5), i % 2 ? 4.6 : 11];
      this.context.lineTo(x + radius * Math.cos(turn), y + radius * Math.sin(turn));
    }
    this.context.closePath();
    this.context.fillStyle = colour(outside ? "halo" : "subgoal");
    this.context.fill();
    this.stroke(outside ? colour("edge") : EDGE, outside ? 2 : 1.5);
  }

  // A line from the agent to the star.
  aim(position, target) {
    this.context.beginPath();
    this.context.moveTo(...this.pixel(position));
    this.context.lineTo(...this.starPlace(target));
    this.stroke(colour("edge"), 1, [2, 4]);
  }

  probe(position) {
    const [x, y] = this.pixel(position);
    this.context.beginPath();
    this.context.arc(x, y, 9, 0, 2 * Math.PI);
    this.stroke(colour("halo"), 4);
    this.stroke(colour("edge"), 2);
    this.cross(x, y, 3, colour("edge"), 1.5);
  }

  disc(x, y, radius, filled, edge) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.context.fillStyle = filled;
    this.context.fill();
    if (edge) this.stroke(edge, 1.2);
  }

  cross(x, y, size, colour, width) {
    this.context.beginPath();
    this.context.moveTo(x - size, y - size);
    this.context.lineTo(x + size, y + size);
    this.context.moveTo(x - size, y + size);
    this.context.lineTo(x + size, y - size);
    this.stroke(colour, width);
  }

  triangle(x, y, size, filled, edge) {
    this.context.beginPath();
    for (const [dx, dy] of [[0, -1], [0.9, 0.7], [-0.9, 0.7]]) this.context.lineTo(x + dx * size, y + dy * size);
    this.context.closePath();
    this.context.fillStyle = filled;
    this.context.fill();
    this.stroke(edge, 1.2);
  }

  arrow(x, y, dx, dy) {
    const length = 0.35 * this.unit;
    const [tipX, tipY] = [x + dx * length, y + dy * length];
    this.context.beginPath();
    this.context.moveTo(x - dx * length, y - dy * length);
    this.context.lineTo(tipX, tipY);
    for (const side of [-1, 1]) {
      this.context.moveTo(tipX, tipY);
      this.context.lineTo(tipX - (dx + side * dy) * 0.6 * length, tipY - (dy + side * dx) * 0.6 * length);
    }
    this.stroke(EDGE, 2);
  }

  letter(text, x, y) {
    const font = `bold ${0.8 * this.unit}px system-ui, sans-serif`;
    Object.assign(this.context, { font, textAlign: "center", textBaseline: "middle", fillStyle: "#000000" });
    this.context.fillText(text, x, y);
  }

  stroke(style, width, dash = []) {
    Object.assign(this.context, { strokeStyle: style, lineWidth: width });
    this.context.setLineDash(dash);
    this.context.stroke();
    this.context.setLineDash([]);
  }
}

const rgb = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
