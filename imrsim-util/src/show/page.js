// SPDX-License-Identifier: GPL-2.0-only
//
// The page: what is played, shown and said.

const element = (id) => document.getElementById(id);
const said = (number) => number.toLocaleString("en-US");
const several = (count, what) => `${said(count)} ${what}${count === 1 ? "" : "s"}`;
const SPEEDS = [0.5, 1, 2, 5, 20, 60, 200, 1000, 5000, 20000, 100000];
/** Up to so many steps a second, the parts of a rewrite are shown one after another. */
const SLOW = 5;
const LAST_STAGE = 2;

class Page {
  constructor(recording) {
    this.recording = recording;
    this.about = recording.about;
    this.isPlaying = false;
    this.stage = LAST_STAGE;
    this.owed = 0;
    this.theme(matchMedia("(prefers-color-scheme: dark)").matches);
    this.introduce();
    this.map = new ZoneMap(element("map"), recording);
    this.listen();
    this.show();
  }

  introduce() {
    const { about } = this;
    document.title = `${about.name}: zone ${about.zone}`;
    const of = about.source === "kernel" ? "a drive of the kernel" : "a simulated drive";
    element("subtitle").textContent =
      `${about.name}: zone ${about.zone} of ${of} with ${several(about.zones, "zone")}, ` +
      `${about.phases}-phase allocation, ${about.groups} track groups of ${about.top} + ${about.bottom} blocks (4 KiB each)` +
      (about.recorded > 1 ? `; ${said(about.recorded)} zones were recorded` : "");
    element("map-note").textContent =
      "Point at a block to see where it is. Left numbers: track groups. Along a track from left to right.";
    element("made-by").textContent = `Made by imrsim_util ${about.version}.`;
    const hasRuns = about.runs > about.requests;
    const unit = hasRuns ? "runs of requests" : "requests";
    const one = hasRuns ? "a run of a request" : "one request";
    element("detail").textContent = about.perStep > 1
      ? `${said(about.runs)} ${unit} are too many for one page: each step stands for ${said(about.perStep)}. Counts and ` +
        "allocated blocks are exact; tracks glow as much as they were written, and the last request of each step is shown block by block."
      : `Each step is ${one}: ${hasRuns ? `${said(about.runs)} of ${several(about.requests, "request")}` : said(about.requests)} in all (${several(about.events, "event")} recorded).`;
    element("share").textContent = `${((about.bottom / (about.top + about.bottom)) * 100).toFixed(0)} %`;
    element("scrub").max = about.steps;
    const speeds = SPEEDS.filter((speed) => speed <= Math.max(about.steps, 5));
    element("speed").replaceChildren(...speeds.map((speed) => {
      const what = about.perStep > 1 || hasRuns ? "steps" : "requests";
      return new Option(`${said(speed)} ${what} a second`, speed);
    }));
    const whole = speeds.find((speed) => about.steps / speed <= 60) ?? speeds.at(-1);
    element("speed").value = whole;
  }

  listen() {
    const actions = {
      home: () => this.seek(0),
      back: () => this.back(),
      play: () => this.play(!this.isPlaying),
      forward: () => this.forward(),
      end: () => this.seek(this.recording.steps),
      next: () => this.nextRewrite(),
      theme: () => this.theme(document.documentElement.dataset.theme !== "dark"),
    };
    for (const [id, action] of Object.entries(actions)) element(id).addEventListener("click", action);
    element("scrub").addEventListener("input", (event) => this.seek(Number(event.target.value)));
    document.addEventListener("keydown", (event) => this.key(event, actions));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => this.theme(event.matches));
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      this.map.layout();
      this.show();
    });
    element("map").addEventListener("pointermove", (event) => {
      const box = event.target.getBoundingClientRect();
      const place = this.map.placeAt(event.clientX - box.left, event.clientY - box.top);
      if (place !== null) element("map-note").textContent = this.describe(place);
    });
  }

  key(event, actions) {
    const on = event.target.tagName;
    if (event.ctrlKey || event.altKey || event.metaKey || on === "SELECT") return;
    if (event.key === " " && on === "BUTTON") return;
    const many = event.shiftKey ? 100 : 0;
    const { position } = this.recording;
    const keys = {
      " ": actions.play,
      ArrowLeft: () => (many ? this.seek(position - many) : this.back()),
      ArrowRight: () => (many ? this.seek(position + many) : this.forward()),
      Home: actions.home,
      End: actions.end,
      "+": () => this.speed(1),
      "=": () => this.speed(1),
      "-": () => this.speed(-1),
      n: actions.next,
      N: actions.next,
      t: actions.theme,
      T: actions.theme,
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  theme(isDark) {
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    if (!this.map) return;
    this.map.layout();
    this.show();
  }

  speed(by) {
    const { options, selectedIndex } = element("speed");
    element("speed").selectedIndex = Math.min(Math.max(selectedIndex + by, 0), options.length - 1);
  }

  seek(position) {
    this.play(false);
    this.goTo(position);
  }

  goTo(position) {
    this.recording.seek(position);
    this.stage = LAST_STAGE;
    this.map.repaint();
    this.show();
  }

  /** One step on, or one part of a rewrite. */
  forward() {
    this.play(false);
    this.advance();
    this.map.clearGlow();
    this.show();
  }

  advance() {
    const { recording } = this;
    if (recording.step?.rmws.length && this.stage < LAST_STAGE) {
      this.stage += 1;
    } else if (recording.position < recording.steps) {
      recording.next();
      this.map.follow(recording.step);
      this.stage = recording.step.rmws.length ? 0 : LAST_STAGE;
    }
  }

  back() {
    const { recording } = this;
    if (recording.step?.rmws.length && this.stage > 0) {
      this.play(false);
      this.stage -= 1;
      this.map.clearGlow();
      this.show();
    } else {
      this.seek(recording.position - 1);
    }
  }

  nextRewrite() {
    this.play(false);
    const found = this.recording.seekRewrite();
    this.stage = found ? 0 : LAST_STAGE;
    this.map.repaint();
    this.show();
    if (!found) element("ticker").textContent = "No rewrite follows.";
  }

  play(on) {
    const { recording } = this;
    if (on && recording.position === recording.steps) this.goTo(0);
    if (on && !this.isPlaying) {
      this.before = performance.now();
      requestAnimationFrame((now) => this.tick(now));
    }
    this.isPlaying = on;
    element("play").textContent = on ? "Pause" : "Play";
    element("ticker").setAttribute("aria-live", on ? "off" : "polite");
  }

  tick(now) {
    if (!this.isPlaying) {
      this.map.clearGlow();
      this.show();
      return;
    }
    const { recording } = this;
    const rate = Number(element("speed").value);
    this.owed += Math.min(0.25, (now - this.before) / 1000) * rate;
    this.before = now;
    this.map.fade();
    const isSlow = rate <= SLOW;
    const until = performance.now() + 40;
    while (this.owed >= 1 && performance.now() < until) {
      this.owed -= 1;
      if (isSlow) {
        this.advance();
      } else if (recording.position < recording.steps) {
        recording.next();
        this.stage = LAST_STAGE;
        this.map.follow(recording.step);
      }
    }
    this.owed = Math.min(this.owed, rate);
    this.show();
    if (recording.position === recording.steps && this.stage === LAST_STAGE) this.play(false);
    requestAnimationFrame((next) => this.tick(next));
  }

  /** Shows the current position. */
  show() {
    const { recording, about } = this;
    const { counts, position, step } = recording;
    this.map.draw(this.stage);
    element("close-up").innerHTML = closeUp(recording, this.stage);
    element("scrub").value = position;
    const time = about.hasTime && step ? `, ${(step.time / 1e9).toFixed(6)} s` : "";
    const where = `Request ${said(counts.requests)} of ${said(about.requests)}${time}`;
    element("position").textContent = where;
    element("scrub").setAttribute("aria-valuetext", where);
    element("ticker").textContent = this.request();
    element("cost").textContent = this.cost();
    element("written").textContent = said(counts.written);
    element("extra").textContent = said(counts.extra);
    element("waf").textContent = recording.amplification()?.toFixed(3) ?? "-";
    const usage = (counts.used / recording.zoneBlocks) * 100;
    element("usage").textContent = `${usage.toFixed(1)} %`;
    element("map").setAttribute("aria-label",
      `The zone: ${said(counts.used)} of ${said(recording.zoneBlocks)} blocks in use, ${said(counts.usedTops)} of them on top tracks. ${this.request()}`);
    element("dashes").hidden = !step?.rmws.length;
    element("read-key").hidden = step?.op !== "read" && counts.read === 0;
    // While it plays, these need not be as smooth as the rest.
    this.frames = (this.frames ?? 0) + 1;
    if (this.isPlaying && this.frames % 6 !== 0) return;
    this.phases();
    this.charts();
  }

  request() {
    const { step } = this.recording;
    if (!step) return "Before the first request.";
    const verbs = { read: "reads", write: "writes", discard: "discards", reset: "resets the zone:" };
    const focus = focusOf(step);
    const where = focus === null ? "" : `, ${this.place(focus)}`;
    return `The host ${verbs[step.op]} ${several(step.blocks, "block")} from block ${said(step.bo)} on${where}.`;
  }

  place(place) {
    const { group, isTop, offset } = this.recording.locate(place);
    return `${isTop ? "top" : "bottom"} track ${group}, block ${offset}`;
  }

  describe(place) {
    const state = this.recording.used[place] ? "allocated" : "empty";
    const text = this.place(place);
    return `${text[0].toUpperCase()}${text.slice(1)}: ${state}.`;
  }

  /** What the request costs, and why. */
  cost() {
    const { step } = this.recording;
    if (!step) return "Press Play, or go step by step.";
    if (step.op === "read") return "Reading disturbs nothing.";
    if (step.op !== "write") return "Forgotten blocks need not be saved any more: rewrites become cheaper.";
    if (step.rmws.length === 0) {
      const { isTop } = this.recording.locate(focusOf(step) ?? 0);
      return isTop
        ? "It lies on a top track: nothing lies over it, and nothing has to be saved."
        : "It lies on a bottom track, and the top tracks over its edges hold nothing there: nothing has to be saved.";
    }
    const tops = several(step.extra, "top block");
    const [them, are] = step.extra === 1 ? ["it", "is"] : ["them", "are"];
    return [
      `1. It lies on a bottom track, under ${tops} with data. To write it would wipe ${them}: so ${step.extra === 1 ? "that" : "those"} ${are} read and kept first.`,
      `2. Now the host's ${step.blocks === 1 ? "block is" : "blocks are"} written.`,
      `3. The ${step.extra === 1 ? "top block is" : `${tops} are`} written back. The host asked for ${said(step.blocks)}, the drive wrote ${said(step.blocks + step.extra)}.`,
    ][this.stage];
  }

  phases() {
    const { recording } = this;
    const { list, current } = recording.phaseList();
    const rows = list.length <= 9 ? list.map((phase, i) => [i + 1, phase]) : [
      [1, list[0]],
      [current > 1 ? current : 2, list[current > 1 ? current - 1 : 1]],
    ];
    const names = ({ tops }, phase) => {
      if (recording.phases === 1) return "blocks stay in place";
      if (phase === 1) return "bottom tracks";
      const shown = tops.slice(0, 3).join(", ");
      return `top tracks ${shown}${tops.length > 3 ? ", ..." : ""}`;
    };
    element("phases").innerHTML = rows.map(([number, phase]) => {
      const share = phase.blocks ? (phase.used / phase.blocks) * 100 : 100;
      return `<li${number === current ? ' aria-current="step"' : ""}><span>${number}</span><span>${names(phase, number)}</span>` +
        `<span>${share.toFixed(0)} %</span><span class="bar"><i style="width:${share}%"></i></span></li>`;
    }).join("");
  }

  charts() {
    const { recording } = this;
    const { samples } = recording;
    const share = recording.steps ? recording.position / recording.steps : 0;
    this.lines ??= {
      all: samples.map(({ written, extra }) => (written ? (written + extra) / written : null)),
      now: samples.map((sample, i) => {
        const before = samples[Math.max(0, i - 8)];
        const written = sample.written - before.written;
        return written ? (written + sample.extra - before.extra) / written : null;
      }),
      bottoms: samples.map(({ used, usedTops }) => used - usedTops),
      tops: samples.map(({ usedTops }) => usedTops),
    };
    const { all, now, bottoms, tops } = this.lines;
    const most = Math.max(1.2, ...all, ...now);
    chart(element("waf-chart"), [{ colour: "soft", values: now, dashes: [3, 3] }, { colour: "rewrite-text", values: all }], {
      from: 1, to: Math.min(3.2, most * 1.03), share, marks: [1, 1.5, 2, 2.5, 3].filter((it) => it < most).map((it) => [it, it.toFixed(1)]),
    });
    const blocks = recording.zoneBlocks;
    chart(element("use-chart"), [{ colour: "soft", values: bottoms }, { colour: "backup-text", values: tops }], {
      from: 0, to: blocks * 0.6, share, marks: [0, 0.2, 0.4].map((it) => [it * blocks, `${it * 100} %`]),
    });
    const waf = recording.amplification()?.toFixed(3) ?? "none yet";
    element("waf-chart").setAttribute("aria-label", `Write amplification over time; now ${waf}`);
    element("use-chart").setAttribute("aria-label", `Blocks in use over time; now ${said(recording.counts.used)}`);
  }

  /** What tests ask. */
  state() {
    const { recording } = this;
    const { step } = recording;
    const sum = (runs) => runs.reduce((all, [, blocks]) => all + blocks, 0);
    const shown = Object.fromEntries(highlights(step, this.stage).map(([name, runs]) => [name, sum(runs)]));
    return {
      position: recording.position,
      steps: recording.steps,
      stage: this.stage,
      isPlaying: this.isPlaying,
      phase: recording.phaseList().current,
      amplification: recording.amplification(),
      counts: { ...recording.counts },
      shown: { written: 0, backup: 0, rewrite: 0, ...shown },
    };
  }
}

async function unpack(text) {
  const bytes = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (it) => it.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

window.imrsim = {
  ready: (async () => {
    try {
      const about = JSON.parse(element("about").textContent);
      const recording = new Recording(about, await unpack(element("data").textContent.trim()));
      const page = new Page(recording);
      Object.assign(window.imrsim, {
        seek: (position) => page.seek(position),
        forward: () => page.forward(),
        back: () => page.back(),
        nextRewrite: () => page.nextRewrite(),
        play: (on = true) => page.play(on),
        state: () => page.state(),
      });
      return true;
    } catch (error) {
      element("problem").hidden = false;
      element("problem").textContent = `This page cannot be played: ${error.message}`;
      throw error;
    }
  })(),
};
