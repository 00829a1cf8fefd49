// What the machine is doing, from GET /v1/state, asked once a second while it is shown. Numbers of "now" are the
// difference between two answers; nothing is guessed that the server does not say.
import { getJson } from "./api.js";
import { History, PartsBar } from "./chart.js";
import { el, setText } from "./dom.js";
import { bytes, count, percent, rate } from "./format.js";

const kPause = 1000; // milliseconds
const kKept = 120; // answers in a drawing

const bytesAndShare = (value, whole) => `${bytes(value)} · ${percent(value, whole)}`;
const share = (value, whole) => percent(value, whole);

function card(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), children);
}

function big(unit) {
  const number = el("span", { class: "number" }, "–");
  return { number, node: el("p", { class: "big" }, number, ` ${unit}`) };
}

// One part of the view per concern; each has a node and shows a change {now, before, seconds}, the latter two of
// which may be null.
class Speed {
  constructor() {
    this.generated = big("tokens/s generated");
    this.prompt = big("tokens/s of prompts read");
    this.generatedHistory = new History(kKept);
    this.promptHistory = new History(kKept, { tone: "two" });
    this.totals = el("p", { class: "small" });
    this.node = card("Speed", this.generated.node, this.generatedHistory.node, this.prompt.node,
      this.promptHistory.node, this.totals);
  }

  show({ now: { tokens } }) {
    setText(this.generated.number, rate(tokens.generated_per_second));
    setText(this.prompt.number, rate(tokens.prompt_per_second));
    this.generatedHistory.push(tokens.generated_per_second);
    this.promptHistory.push(tokens.prompt_per_second);
    setText(this.totals, `Since the start: ${count(tokens.generated)} generated, ${count(tokens.prompt)} read, ` +
      `${count(tokens.cached)} kept from earlier prompts`);
  }
}

class Sequences {
  constructor() {
    this.running = big("running");
    this.waiting = big("waiting");
    this.runningHistory = new History(kKept);
    this.totals = el("p", { class: "small" });
    this.node = card("Sequences", el("div", { class: "pair" }, this.running.node, this.waiting.node),
      this.runningHistory.node, this.totals);
  }

  show({ now: { jobs, machine } }) {
    const of = (value, most) => (most === undefined ? count(value) : `${count(value)} of ${count(most)}`);
    setText(this.running.number, of(jobs.running, machine?.most_running));
    setText(this.waiting.number, of(jobs.waiting, machine?.most_waiting));
    this.runningHistory.limit = machine?.most_running ?? 0;
    this.runningHistory.push(jobs.running);
    setText(this.totals, `Since the start: ${count(jobs.finished)} finished, ${count(jobs.cancelled)} cancelled, ` +
      `${count(jobs.failed)} failed, ${count(jobs.refused)} refused`);
  }
}

class Tiers {
  constructor() {
    this.memory = new PartsBar([{ name: "Trunk", tone: "one" }, { name: "Experts", tone: "two" },
      { name: "States", tone: "three" }, { name: "Activations", tone: "four" }], bytesAndShare);
    this.disk = el("p", {});
    this.reserved = new PartsBar([{ name: "States set aside for running sequences", tone: "three" }], bytesAndShare);
    this.node = card("Tiers", el("h3", {}, "Memory"), this.memory.node, this.reserved.node, el("h3", {}, "Disk"), this.disk);
  }

  show({ now: { machine, state_memory: states } }) {
    this.reserved.show([states.reserved_bytes], states.bytes);
    const memory = machine?.experts.memory;
    if (!memory) return;
    this.memory.show([memory.trunk_bytes, memory.expert_bytes, memory.state_bytes, memory.activation_bytes]);
    const total = machine.routed_experts;
    const onDisk = memory.slots > 0 ? ` (${bytes((memory.expert_bytes / memory.slots) * total)})` : "";
    setText(this.disk, machine.experts.home === "resident"
      ? `Nothing is read while replies are made: all ${count(total)} experts are in memory.`
      : `${count(total)} experts${onDisk}, ${count(memory.slots)} of which memory holds at a time.`);
  }
}

class Experts {
  constructor() {
    this.rate = big("of the experts were in memory, lately");
    this.parts = new PartsBar([{ name: "Popular", tone: "one" }, { name: "Used before", tone: "two" },
      { name: "Foreseen", tone: "three" }, { name: "Being read", tone: "four" }, { name: "Had to be read", tone: "five" }], share);
    this.node = card("Where experts come from", this.rate.node, this.parts.node);
    this.recent = []; // of the last answers in which experts were asked for
  }

  show({ now, before }) {
    const experts = now.machine?.experts;
    this.node.hidden = experts?.hits === undefined;
    if (this.node.hidden) return;
    const counts = ({ hits, joined, misses }) => [hits.pinned, hits.pool, hits.prefetch, joined, misses];
    const all = counts(experts);
    this.parts.show(all);
    const then = before?.machine ? counts(before.machine.experts) : all.map(() => 0);
    const fresh = all.map((value, i) => value - then[i]);
    if (fresh.some((value) => value > 0)) this.recent = [...this.recent.slice(-9), fresh];
    const sums = all.map((_, i) => this.recent.reduce((sum, values) => sum + values[i], 0));
    setText(this.rate.number, percent(sums[0] + sums[1] + sums[2], sums.reduce((a, b) => a + b, 0)));
  }
}

class Disk {
  constructor() {
    this.rate = big("read now");
    this.history = new History(kKept, { tone: "two" });
    this.limit = el("p", { class: "small" });
    this.perToken = el("dl", { class: "legend" });
    this.node = card("Disk", this.rate.node, this.history.node, this.limit, this.perToken);
  }

  show({ now, before, seconds }) {
    const read = (state) => state.machine.experts.bytes.read_demand + state.machine.experts.bytes.read_prefetch;
    const tokens = (state) => state.tokens.generated + state.tokens.prompt;
    this.node.hidden = now.machine?.experts.bytes === undefined;
    if (this.node.hidden) return;
    const speed = before ? Math.max(read(now) - read(before), 0) / seconds : 0;
    const most = now.machine.limits?.disk_bytes_per_second ?? 0;
    setText(this.rate.number, `${bytes(speed)}/s`);
    this.history.limit = most;
    this.history.push(speed);
    setText(this.limit, most > 0
      ? `${percent(speed, most)} of the ${bytes(most)}/s that this drive was measured at; while busy ${bytes(now.machine.experts.disk_bytes_per_second)}/s`
      : `While busy ${bytes(now.machine.experts.disk_bytes_per_second)}/s. perigee bench machine measures the drive's limit.`);
    const a = Math.max(tokens(now), 1);
    this.perToken.replaceChildren(
      el("div", {}, el("dt", {}, "Experts a token used"), el("dd", {}, bytes(now.machine.experts.bytes.used / a))),
      el("div", {}, el("dt", {}, "Read for a token"), el("dd", {}, bytes(read(now) / a))));
  }
}

class Prompts {
  constructor() {
    this.parts = new PartsBar([{ name: "Beginnings found", tone: "one" }, { name: "Not found", tone: "none" }],
      (value, whole) => `${count(value)} · ${percent(value, whole)}`);
    this.totals = el("p", { class: "small" });
    this.node = card("Prompts kept", this.parts.node, this.totals);
  }

  show({ now: { prefixes } }) {
    this.parts.show([prefixes.hits, prefixes.misses]);
    setText(this.totals, `${count(prefixes.in_memory)} in memory (${bytes(prefixes.memory_bytes)}), ` +
      `${count(prefixes.in_folder)} in files (${bytes(prefixes.folder_bytes)})`);
  }
}

export class MachineView {
  constructor(node, onKeyNeeded) {
    this.node = node;
    this.onKeyNeeded = onKeyNeeded;
    this.parts = [new Speed(), new Sequences(), new Tiers(), new Experts(), new Disk(), new Prompts()];
    this.line = el("p", { class: "lead" }, "Asking the server …");
    this.node.append(this.line, el("div", { class: "cards" }, this.parts.map((part) => part.node)));
    this.before = null;
    this.timer = 0;
    document.addEventListener("visibilitychange", () => this.setShown(this.shown));
  }

  setShown(shown) {
    this.shown = shown;
    clearTimeout(this.timer);
    if (shown && !document.hidden) this.poll();
  }

  async poll() {
    clearTimeout(this.timer);
    let pause = kPause;
    try {
      this.show(await getJson("/v1/state"));
    } catch (error) {
      setText(this.line, `Nothing is known at the moment: ${error.message}.`);
      pause = 5 * kPause;
      if (error.status === 401) await this.onKeyNeeded();
    }
    if (this.shown && !document.hidden) this.timer = setTimeout(() => this.poll(), pause);
  }

  show(now) {
    const at = performance.now() / 1000;
    const change = { now, before: this.before?.state ?? null, seconds: this.before ? at - this.before.at : null };
    const { machine } = now;
    const how = machine ? `, ${machine.backend} on ${count(machine.threads)} threads, ${machine.precision}` : "";
    setText(this.line, `${now.model}: ${count(now.context_tokens)} tokens of context${how}`);
    for (const part of this.parts) part.show(change);
    this.before = { state: now, at };
  }
}
