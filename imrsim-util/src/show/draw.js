// SPDX-License-Identifier: GPL-2.0-only
//
// Draws a zone, a request seen closely, and charts.

/** The colours of the page, as its style sheet has them. */
function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(
    ["bottom-empty", "top-empty", "top-edge", "bottom-used", "top-used", "written", "backup", "rewrite", "read",
      "text", "soft", "line", "card", "rewrite-text", "backup-text"].map((name) => [name, of(name)]),
  );
}

/** What the blocks of a step look like: [colour, runs], what comes later lies above. */
function highlights(step, stage) {
  if (!step) return [];
  const tops = step.rmws.flatMap((rmw) => rmw.tops);
  const written = stage > 0 || tops.length === 0 ? step.written : [];
  return [
    ["read", step.op === "read" ? step.touched : []],
    ["written", written],
    [stage < 2 ? "backup" : "rewrite", tops],
  ];
}

/** The canvas' context, fitted to its place on the page and the pixels of the screen. */
function fit(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(200, canvas.clientWidth || 800);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

/** All tracks of a zone: bottoms side by side, tops over the seams between them. */
class ZoneMap {
  constructor(canvas, recording) {
    this.canvas = canvas;
    this.recording = recording;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.layout();
  }

  layout() {
    const { groups } = this.recording.about;
    this.pitch = Math.min(64, Math.max(9, Math.floor(640 / groups)));
    this.topHeight = Math.round(this.pitch * 0.5);
    this.left = 46;
    const height = groups * this.pitch + this.topHeight + 2;
    const { context, width } = fit(this.canvas, height);
    Object.assign(this, { context, width, height, right: width - 2 });
    this.colours = colours();
    const layer = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [this.canvas.width, this.canvas.height];
      const context = canvas.getContext("2d");
      context.setTransform(this.context.getTransform());
      return context;
    };
    this.layers = [layer(), layer()];
    this.glows = [layer(), layer()];
    this.repaint();
  }

  /** The rectangle of a run of blocks of one track. */
  rectangle(track, offset, blocks) {
    const length = this.recording.trackLength(track);
    const scale = (this.right - this.left) / length;
    const group = Math.floor(track / 2);
    const isTop = track % 2 === 0;
    const seam = 1 + this.topHeight / 2 + group * this.pitch;
    const x = this.left + offset * scale;
    return isTop
      ? { x, y: Math.round(seam - this.topHeight / 2), width: blocks * scale, height: this.topHeight }
      : { x, y: Math.round(seam), width: blocks * scale, height: this.pitch };
  }

  /** Calls `paint` with the parts of a run that lie on one track each. */
  parts([first, blocks], paint) {
    for (let place = first; place < first + blocks; ) {
      const { track, offset, length } = this.recording.locate(place);
      const here = Math.min(length - offset, first + blocks - place);
      paint(track, this.rectangle(track, offset, here));
      place += here;
    }
  }

  emptyTrack(track) {
    const context = this.layers[track % 2 ? 0 : 1];
    const { x, y, width, height } = this.rectangle(track, 0, this.recording.trackLength(track));
    context.clearRect(x, y, width, height);
    context.fillStyle = this.colours[track % 2 ? "bottom-empty" : "top-empty"];
    context.fillRect(x, y, width, height);
    context.fillStyle = this.colours[track % 2 ? "card" : "top-edge"];
    context.fillRect(x, y, width, 0.75);
    if (track % 2 === 0) context.fillRect(x, y + height - 0.75, width, 0.75);
  }

  usedRun(run) {
    this.parts(run, (track, { x, y, width, height }) => {
      const context = this.layers[track % 2 ? 0 : 1];
      context.fillStyle = this.colours[track % 2 ? "bottom-used" : "top-used"];
      context.fillRect(x, y + (track % 2 ? 0.75 : 0), width, height - (track % 2 ? 0.75 : 0));
    });
  }

  paintTrack(track) {
    const { used } = this.recording;
    this.emptyTrack(track);
    const start = this.recording.trackStart(track);
    const end = start + this.recording.trackLength(track);
    for (let place = start; place < end; place++) {
      if (!used[place]) continue;
      let stop = place + 1;
      while (stop < end && used[stop]) stop++;
      this.usedRun([place, stop - place]);
      place = stop;
    }
  }

  repaint() {
    for (let track = 0; track < 2 * this.recording.about.groups; track++) this.paintTrack(track);
    this.clearGlow();
  }

  clearGlow() {
    for (const glow of this.glows) glow.clearRect(0, 0, this.width, this.height);
  }

  /** Takes over what a step has changed, and lets it glow. */
  follow(step) {
    const freed = new Set();
    for (const run of step.toggled) {
      if (this.recording.used[run[0]]) this.usedRun(run);
      else this.parts(run, (track) => freed.add(track));
    }
    freed.forEach((track) => this.paintTrack(track));
    if (this.calm) return;
    for (const [track, written, saved] of step.tracks ?? []) {
      this.glowTrack(track, "written", written);
      this.glowTrack(track, "rewrite", saved);
    }
    for (const [colour, runs] of highlights(step, 2)) {
      for (const run of runs) this.glowRun(run, colour);
    }
  }

  glowRun(run, colour) {
    this.parts(run, (track, { x, y, width, height }) => {
      const glow = this.glows[track % 2 ? 0 : 1];
      glow.fillStyle = this.colours[colour];
      glow.fillRect(x - 0.5, y, Math.max(width, 2) + 1, height);
    });
  }

  glowTrack(track, colour, blocks) {
    if (blocks === 0) return;
    const glow = this.glows[track % 2 ? 0 : 1];
    const { x, y, width, height } = this.rectangle(track, 0, this.recording.trackLength(track));
    glow.globalAlpha = Math.min(0.12, 0.02 + (0.3 * blocks) / this.recording.trackLength(track));
    glow.fillStyle = this.colours[colour];
    glow.fillRect(x, y, width, height);
    glow.globalAlpha = 1;
  }

  fade() {
    for (const glow of this.glows) {
      glow.globalCompositeOperation = "destination-out";
      glow.fillStyle = "rgba(0, 0, 0, 0.1)";
      glow.fillRect(0, 0, this.width, this.height);
      glow.globalCompositeOperation = "source-over";
    }
  }

  /** Puts everything together, and a frame around what the request is about. */
  draw(stage) {
    const { context, recording } = this;
    context.clearRect(0, 0, this.width, this.height);
    this.labels();
    const put = (layer) => context.drawImage(layer.canvas, 0, 0, this.width, this.height);
    const crisp = highlights(recording.step, stage);
    for (const level of [0, 1]) {
      put(this.layers[level]);
      put(this.glows[level]);
      for (const [colour, runs] of crisp) {
        context.fillStyle = this.colours[colour];
        for (const run of runs) {
          this.parts(run, (track, { x, y, width, height }) => {
            if ((track % 2 ? 0 : 1) === level) context.fillRect(x - 0.5, y, Math.max(width, 2) + 1, height);
          });
        }
      }
    }
    const focus = recording.step ? focusOf(recording.step) : null;
    if (focus !== null) this.frame(focus);
  }

  frame(place) {
    const { track, offset } = this.recording.locate(place);
    const { x, y, width, height } = this.rectangle(track, offset, 1);
    const { context } = this;
    // A block that is seen without it needs no frame.
    if (width > 16) return;
    const middle = [x + width / 2, y + height / 2];
    const half = [Math.max(12, width / 2 + 5), this.pitch + 4];
    context.lineWidth = 2;
    context.strokeStyle = this.colours.card;
    context.strokeRect(middle[0] - half[0] - 2, middle[1] - half[1] - 2, 2 * half[0] + 4, 2 * half[1] + 4);
    context.strokeStyle = this.colours.text;
    context.strokeRect(middle[0] - half[0], middle[1] - half[1], 2 * half[0], 2 * half[1]);
  }

  labels() {
    const { context } = this;
    const { groups } = this.recording.about;
    const every = this.pitch >= 22 ? 1 : 8;
    context.fillStyle = this.colours.soft;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let group = 0; group < groups; group += every) {
      const top = this.rectangle(2 * group, 0, 1);
      const bottom = this.rectangle(2 * group + 1, 0, 1);
      if (every === 1) {
        context.fillText(`top ${group}`, this.left - 5, top.y + top.height / 2);
        context.fillText(`bot. ${group}`, this.left - 5, bottom.y + bottom.height / 2);
      } else {
        context.fillText(String(group), this.left - 5, top.y + this.pitch / 2);
      }
    }
  }

  /** The place at a point of the canvas; tops lie above. */
  placeAt(x, y) {
    const { groups } = this.recording.about;
    for (const isTop of [true, false]) {
      for (let group = 0; group < groups; group++) {
        const track = 2 * group + (isTop ? 0 : 1);
        const length = this.recording.trackLength(track);
        const box = this.rectangle(track, 0, length);
        if (y < box.y || y >= box.y + box.height || x < box.x || x >= box.x + box.width) continue;
        return this.recording.trackStart(track) + Math.floor(((x - box.x) / box.width) * length);
      }
    }
    return null;
  }
}

/** The block that a step is about: of a rewrite the bottom block. */
function focusOf(step) {
  const runs = [step.rmws.map((rmw) => [rmw.first, rmw.blocks]), step.written, step.touched, step.freed];
  const run = runs.flat()[0];
  return run ? run[0] : null;
}

/** A few blocks around the request, as a picture. */
function closeUp(recording, stage) {
  const width = 460;
  const left = 74;
  const [bottomHeight, topHeight] = [64, 36];
  const { step, about } = recording;
  const focus = step ? focusOf(step) : null;
  const at = recording.locate(focus ?? recording.trackStart(1));
  const shown = Math.min(1, 7.5 / about.bottom);
  const middle = (at.offset + 0.5) / at.length;
  const from = Math.min(Math.max(middle - shown / 2, 0), 1 - shown);
  const x = (share) => left + ((share - from) / shown) * (width - left);
  const first = Math.max(0, Math.min(at.group - 1, about.groups - 3));
  const last = Math.min(about.groups - 1, first + 2);

  const colourOf = new Map();
  for (const [colour, runs] of focus === null ? [] : highlights(step, stage)) {
    for (const [start, blocks] of runs) for (let i = 0; i < blocks; i++) colourOf.set(start + i, colour);
  }
  const badges = { backup: "1", written: step?.rmws.length ? "2" : "", rewrite: "3" };
  const parts = [];
  const marks = [];
  const track = (number) => {
    const isTop = number % 2 === 0;
    const seam = topHeight / 2 + 1 + (Math.floor(number / 2) - first) * bottomHeight;
    const [y, height] = isTop ? [seam - topHeight / 2, topHeight] : [seam, bottomHeight];
    const length = recording.trackLength(number);
    const start = recording.trackStart(number);
    const begin = Math.floor(from * length);
    const end = Math.min(length, Math.ceil((from + shown) * length));
    for (let offset = begin; offset < end; offset++) {
      const place = start + offset;
      const [a, b] = [Math.max(left, x(offset / length)), Math.min(width, x((offset + 1) / length))];
      if (b - a < 0.5) continue;
      const state = recording.used[place] ? "used" : "empty";
      const colour = colourOf.get(place) ?? `${isTop ? "top" : "bottom"}-${state}`;
      parts.push(`<rect x="${(a + 0.6).toFixed(1)}" y="${y}" width="${Math.max(0.4, b - a - 1.2).toFixed(1)}" height="${height}" rx="2"
        fill="var(--${colour})" fill-opacity="${isTop ? 0.86 : 1}" stroke="var(--${isTop ? "top-edge" : "card"})" stroke-width="${isTop ? 1 : 0}"/>`);
      const badge = badges[colourOf.get(place)];
      if (badge && b - a > 16) {
        marks.push(`<text class="badge" x="${(isTop ? a + 10 : (a + b) / 2).toFixed(1)}" y="${y + height / 2 + 4}">${badge}</text>`);
      }
    }
    const label = isTop ? seam + 4 : seam + bottomHeight / 2 + 4;
    parts.push(`<text x="0" y="${label}">${isTop ? "top" : "bottom"} ${Math.floor(number / 2)}</text>`);
  };
  for (let group = first; group <= last; group++) track(2 * group + 1);
  for (let group = first; group <= Math.min(last + 1, about.groups - 1); group++) track(2 * group);
  // How far the blocks of a bottom track reach under the tops.
  for (const rmw of step?.rmws ?? []) {
    const { group, isTop, offset, length } = recording.locate(rmw.first);
    if (isTop || group < first || group > last) continue;
    const [a, b] = [Math.max(left, x(offset / length)), Math.min(width, x((offset + rmw.blocks) / length))];
    if (b <= a) continue;
    const y = topHeight / 2 + 1 + (group - first) * bottomHeight;
    parts.push(`<rect x="${a.toFixed(1)}" y="${y}" width="${(b - a).toFixed(1)}" height="${bottomHeight}" fill="none"
      stroke="var(--text)" stroke-width="2" stroke-dasharray="4 3"/>`);
  }
  const height = (last - first + 1) * bottomHeight + topHeight + 2;
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="The blocks around the request">${parts.concat(marks).join("")}</svg>`;
}

/** Lines over the steps: each a colour and a value for each sample, null where there is none. */
function chart(canvas, lines, { from, to, marks, share }) {
  const { context, width, height } = fit(canvas, 120);
  const [left, right, top, bottom] = [38, width - 4, 6, height - 6];
  const y = (value) => bottom - ((value - from) / (to - from || 1)) * (bottom - top);
  const palette = colours();
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const [value, text] of marks) {
    context.fillStyle = palette.line;
    context.fillRect(left, y(value), right - left, 1);
    context.fillStyle = palette.soft;
    context.fillText(text, left - 4, y(value));
  }
  for (const { colour, values, dashes } of lines) {
    context.strokeStyle = palette[colour];
    context.lineWidth = 1.75;
    context.setLineDash(dashes ?? []);
    context.beginPath();
    let isOpen = false;
    values.forEach((value, i) => {
      if (value === null) return;
      const x = left + (i / Math.max(values.length - 1, 1)) * (right - left);
      if (isOpen) context.lineTo(x, y(value));
      else context.moveTo(x, y(value));
      isOpen = true;
    });
    context.stroke();
    context.setLineDash([]);
  }
  context.fillStyle = palette.text;
  context.fillRect(left + share * (right - left) - 0.75, top, 1.5, bottom - top);
}
