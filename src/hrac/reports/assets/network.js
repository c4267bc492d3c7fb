"use strict";
// The adjacency network: the learned distance between two points, from its weights.

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

class Network {
  constructor(layers) {
    this.layers = layers.map(({ inputs, weight, bias }) => ({
      inputs,
      weight: new Float32Array(bytes(weight)),
      bias: new Float32Array(bytes(bias)),
    }));
    this.size = this.layers.at(-1).bias.length;
  }

  // Embeddings (count, size) of points (count, dimensions), both in rows.
  embed(points, count) {
    let rows = points;
    this.layers.forEach(({ inputs, weight, bias }, depth) => {
      const outputs = bias.length;
      const sums = new Float64Array(count * outputs);
      for (let row = 0; row < count; row++) {
        const start = row * outputs;
        sums.set(bias, start);
        for (let input = 0; input < inputs; input++) {
          const value = rows[row * inputs + input];
          if (value === 0) continue;
          const from = input * outputs;
          for (let output = 0; output < outputs; output++) sums[start + output] += value * weight[from + output];
        }
      }
      if (depth < this.layers.length - 1) for (let i = 0; i < sums.length; i++) if (sums[i] < 0) sums[i] = 0;
      rows = sums;
    });
    return rows;
  }
}

// Distances from one point to many.
class Adjacency {
  constructor({ source, target }) {
    this.source = new Network(source);
    this.target = target ? new Network(target) : this.source;
  }

  from(here, embedded) {
    const [size, first] = [this.source.size, this.source.embed(here, 1)];
    const distances = new Float64Array(embedded.length / size);
    for (let point = 0; point < distances.length; point++) {
      let sum = 1e-12;
      for (let i = 0; i < size; i++) sum += (first[i] - embedded[point * size + i]) ** 2;
      distances[point] = Math.sqrt(sum);
    }
    return distances;
  }

  between(here, there) {
    return this.from(here, this.target.embed(there, 1))[0];
  }
}

// True steps between cells, from those that were visited.
const NO_WAY = 65535;

class Truth {
  constructor({ exact, cells, from, steps }) {
    Object.assign(this, { exact, cells, row: new Map(from.map((cell, row) => [cell, row])), steps: new Uint16Array(bytes(steps)) });
    this.numbers = new Map(cells.map((cell, number) => [String(cell), number]));
    this.covered = new Map();
  }

  // The number of the cell nearest to a point: the one that it is in, else the first of the nearest.
  nearest(point) {
    const own = this.numbers.get(String(this.cells[0].map((_, axis) => Math.ceil(point[axis] - 0.5))));
    if (own !== undefined) return own;
    let [best, least] = [0, Infinity];
    this.cells.forEach((cell, number) => {
      const far = cell.reduce((sum, part, axis) => sum + (part - point[axis]) ** 2, 0);
      if (far < least) [best, least] = [number, far];
    });
    return best;
  }

  // The small squares that cover a map, with their cells. A strip along a wall is in no cell of its own, but in the nearest.
  squares(map) {
    if (!this.covered.has(map)) this.covered.set(map, MapCanvas.squares(map, (centre) => this.nearest(centre)));
    return this.covered.get(map);
  }

  // To all cells, from the one nearest to a point of the path.
  from(here) {
    const row = this.row.get(this.nearest(here));
    return row === undefined ? null : this.steps.subarray(row * this.cells.length, (row + 1) * this.cells.length);
  }
}
