// SPDX-License-Identifier: GPL-2.0-only
//
// Unpacks the steps of a recording and follows them: the other side of `Packer` in page.rs.
"use strict";

const OPS = ["read", "write", "discard", "reset"];
const KEYFRAMES = 256;
const SAMPLES = 400;

/** Numbers of as many bytes as they need: seven bits in each, the lowest first. */
class Numbers {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let number = 0;
    for (let scale = 1; ; scale *= 128) {
      if (this.at >= this.bytes.length) throw new Error("the recording ends too early");
      const byte = this.bytes[this.at++];
      number += (byte & 127) * scale;
      if (byte < 128) return number;
    }
  }

  /** A number given as its difference to another one. */
  step(from) {
    const coded = this.next();
    return from + (coded % 2 ? -(coded + 1) / 2 : coded / 2);
  }

  /** Ascending runs, each given as [first, blocks]. */
  runs() {
    let end = 0;
    return Array.from({ length: this.next() }, () => {
      const first = end + this.next();
      const blocks = this.next();
      end = first + blocks;
      return [first, blocks];
    });
  }
}

/** A zone, step by step. Position 0 is before the first step, position n after the n-th. */
class Recording {
  constructor(about, bytes) {
    this.about = about;
    this.steps = about.steps;
    this.groupBlocks = about.top + about.bottom;
    this.zoneBlocks = this.groupBlocks * about.groups;
    this.numbers = new Numbers(bytes);
    this.used = new Uint8Array(this.zoneBlocks);
    this.usedIn = new Uint32Array(2 * about.groups);
    this.counts = { requests: 0, read: 0, written: 0, extra: 0, rmws: 0, used: 0, usedTops: 0 };
    this.phases = about.phases;
    this.position = 0;
    this.time = 0;
    this.bo = 0;
    this.place = 0;
    this.step = null;
    for (const [first, blocks] of this.numbers.runs()) this.setUsed(first, blocks, 1);
    this.index();
  }

  /** Goes through all steps once, for keyframes and charts. */
  index() {
    this.spacing = Math.max(64, Math.ceil(this.steps / KEYFRAMES));
    const every = Math.max(1, Math.ceil(this.steps / SAMPLES));
    this.keyframes = [this.keyframe()];
    this.samples = [this.sample()];
    while (this.position < this.steps) {
      this.next();
      if (this.position % this.spacing === 0) this.keyframes.push(this.keyframe());
      if (this.position % every === 0 || this.position === this.steps) this.samples.push(this.sample());
    }
    for (const [name, count] of Object.entries(this.about.last)) {
      if (this.counts[name] !== count) {
        throw new Error(`the page counts ${this.counts[name]} (${name}), the recording ${count}`);
      }
    }
    this.seek(0);
  }

  keyframe() {
    const { position, time, bo, place, phases } = this;
    const counts = { ...this.counts };
    return { position, time, bo, place, phases, counts, at: this.numbers.at, used: this.used.slice(), usedIn: this.usedIn.slice() };
  }

  sample() {
    const { written, extra, used, usedTops } = this.counts;
    return { position: this.position, written, extra, used, usedTops };
  }

  restore(keyframe) {
    const { position, time, bo, place, phases } = keyframe;
    Object.assign(this, { position, time, bo, place, phases });
    Object.assign(this.counts, keyframe.counts);
    this.numbers.at = keyframe.at;
    this.used.set(keyframe.used);
    this.usedIn.set(keyframe.usedIn);
    this.step = null;
  }

  /** Goes to a position, from the nearest one that is known before it. */
  seek(position) {
    const to = Math.min(Math.max(Math.round(position), 0), this.steps);
    const keyframe = this.keyframes[Math.floor(Math.max(to - 1, 0) / this.spacing)];
    if (to <= this.position || keyframe.position > this.position) this.restore(keyframe);
    while (this.position < to) this.next();
  }

  /** Goes on to the next step with a rewrite; stays if there is none. */
  seekRewrite() {
    const from = this.position;
    while (this.position < this.steps) {
      this.next();
      if (this.step.rmws.length > 0) return true;
    }
    this.seek(from);
    return false;
  }

  /** Does the next step. */
  next() {
    const { numbers, counts } = this;
    const step = { tracks: null, toggled: [] };
    if (this.about.perStep > 1) {
      for (const name of ["requests", "read", "written", "extra", "rmws"]) counts[name] += numbers.next();
      step.toggled = numbers.runs();
      for (const [first, blocks] of step.toggled) {
        for (let place = first; place < first + blocks; place++) this.setUsed(place, 1, 1 - this.used[place]);
      }
      let track = 0;
      step.tracks = Array.from({ length: numbers.next() }, () => {
        track += numbers.next();
        return [track++, numbers.next(), numbers.next()];
      });
      this.request(step);
    } else {
      this.request(step);
      if (!step.more) counts.requests += 1;
      if (step.op === "read") counts.read += step.blocks;
      if (step.op === "write") counts.written += step.blocks;
      counts.extra += step.extra;
      counts.rmws += step.rmws.length;
      for (const [first, blocks] of step.freed) this.setUsed(first, blocks, 0);
      for (const [first, blocks] of step.taken) this.setUsed(first, blocks, 1);
      step.toggled = step.freed.concat(step.taken);
    }
    this.position += 1;
    this.step = step;
  }

  /** Reads what is known of a single request. */
  request(step) {
    const { numbers } = this;
    const head = numbers.next();
    const has = (bit) => (head >> bit) & 1;
    step.op = OPS[head & 3];
    /** Whether another step counts as the request that this is a run of. */
    step.more = has(2) === 1;
    if (has(3)) this.phases = numbers.next();
    if (this.about.hasTime) this.time += numbers.next();
    step.time = this.time;
    step.bo = this.bo = numbers.step(this.bo);
    step.blocks = numbers.next();
    const list = (bit) => (has(bit) ? Array.from({ length: numbers.next() }, () => this.run()) : []);
    step.taken = list(4);
    step.touched = list(5);
    step.freed = list(6);
    step.rmws = !has(7) ? [] : Array.from({ length: numbers.next() }, () => {
      const [first, blocks] = this.run();
      const tops = Array.from({ length: numbers.next() }, () => this.run());
      this.place = first;
      return { first, blocks, tops };
    });
    step.written = step.op === "write" ? step.touched.concat(step.taken) : [];
    const sum = (runs) => runs.reduce((all, [, blocks]) => all + blocks, 0);
    step.extra = step.rmws.reduce((all, rmw) => all + sum(rmw.tops), 0);
  }

  run() {
    this.place = this.numbers.step(this.place);
    return [this.place, this.numbers.next()];
  }

  setUsed(first, blocks, to) {
    for (let place = first; place < first + blocks; place++) {
      const change = to - this.used[place];
      if (change === 0) continue;
      this.used[place] = to;
      const { track } = this.locate(place);
      this.usedIn[track] += change;
      this.counts.used += change;
      if (track % 2 === 0) this.counts.usedTops += change;
    }
  }

  /** Where a place is: tracks are numbered as they lie, top 0, bottom 0, top 1, ... */
  locate(place) {
    const group = Math.floor(place / this.groupBlocks);
    const offset = place % this.groupBlocks;
    return offset < this.about.top
      ? { track: 2 * group, group, isTop: true, offset, length: this.about.top }
      : { track: 2 * group + 1, group, isTop: false, offset: offset - this.about.top, length: this.about.bottom };
  }

  trackStart(track) {
    return Math.floor(track / 2) * this.groupBlocks + (track % 2 ? this.about.top : 0);
  }

  trackLength(track) {
    return track % 2 ? this.about.bottom : this.about.top;
  }

  /** The phase in which a track is filled. */
  phaseOf(track) {
    if (this.phases === 1 || track % 2) return 1;
    return 2 + ((track / 2) % (this.phases - 1));
  }

  /** How far each phase has come, and which one the next block that is new falls into. */
  phaseList() {
    const list = Array.from({ length: this.phases }, () => ({ used: 0, blocks: 0, tops: [] }));
    for (let track = 0; track < 2 * this.about.groups; track++) {
      const phase = list[this.phaseOf(track) - 1];
      phase.used += this.usedIn[track];
      phase.blocks += this.trackLength(track);
      if (track % 2 === 0) phase.tops.push(track / 2);
    }
    const open = list.findIndex((phase) => phase.used < phase.blocks);
    return { list, current: open < 0 ? this.phases : open + 1 };
  }

  amplification() {
    const { written, extra } = this.counts;
    return written > 0 ? (written + extra) / written : null;
  }
}
