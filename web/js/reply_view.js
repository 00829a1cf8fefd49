// One reply as it is shown: thinking (folded), calls of tools with their results, the answer, and what it cost.
// Changed in place while it streams.
import { announce, SentenceReader } from "./announcer.js";
import { resultOf } from "./conversation.js";
import { el, setText } from "./dom.js";
import { count, rate, seconds } from "./format.js";
import { MarkdownView } from "./markdown.js";

const kShare = 8; // drawing may take one part in so many of the time
const kShortestPause = 30; // milliseconds

const kShortestSpan = 0.05; // seconds from which on a rate means something

const endings = {
  length: "Ended because it had reached the most tokens.",
  stopped: "Stopped.",
};

// {"a": 1} as indented JSON, once it is complete.
function readable(source) {
  try {
    return JSON.stringify(JSON.parse(source), null, 2);
  } catch {
    return source;
  }
}

class CallView {
  constructor(call) {
    this.name = el("span", { class: "name" }, call.name);
    this.given = el("pre", { tabindex: 0, "aria-label": "Arguments" });
    this.result = el("pre", { tabindex: 0, "aria-label": "Result" });
    this.state = el("span", { class: "small" });
    this.node = el("details", { class: "call" },
      el("summary", {}, "Tool ", this.name, " ", this.state),
      el("p", { class: "small" }, "Arguments"), this.given,
      this.resultTitle = el("p", { class: "small" }, "Result"), this.result);
  }

  show(call, result, ended) {
    setText(this.name, call.name);
    setText(this.given, ended ? readable(call.arguments) : call.arguments);
    this.resultTitle.hidden = this.result.hidden = !result;
    if (result) setText(this.result, result.content);
    setText(this.state, result ? `→ ${result.content.slice(0, 60)}` : ended ? "was not run" : "…");
  }
}

function costText(reply) {
  const { usage, timing } = reply;
  if (!usage || !timing || timing.first === null) return "";
  const parts = [`${count(usage.completion)} tokens`];
  const span = timing.total - timing.first;
  if (usage.completion > 1 && span > kShortestSpan) parts.push(`${rate((usage.completion - 1) / span)} tokens/s`);
  parts.push(`first after ${seconds(timing.first)}`);
  parts.push(`prompt ${count(usage.prompt)}${usage.cached > 0 ? ` (${count(usage.cached)} kept)` : ""}`);
  return parts.join(" · ");
}

export class ReplyView {
  constructor(conversation, reply) {
    this.conversation = conversation;
    this.reply = reply;
    this.calls = [];
    this.reader = new SentenceReader();
    this.touched = false; // the user has opened or closed the thinking
    this.timer = 0;
    this.build();
  }

  build() {
    this.summary = el("summary", { onclick: () => (this.touched = true) }, "Thinking …");
    this.thoughts = el("div", { class: "text" });
    this.thinking = el("details", { class: "thinking", hidden: true }, this.summary, this.thoughts);
    this.thoughtsView = new MarkdownView(this.thoughts);
    this.content = el("div", { class: "text" });
    this.contentView = new MarkdownView(this.content);
    this.callList = el("div", { class: "calls" });
    this.trouble = el("p", { class: "trouble", hidden: true });
    this.wait = el("p", { class: "waiting" }, "Waiting for the server …");
    this.cost = el("p", { class: "cost small" });
    this.node = el("article", { class: "reply", "aria-label": "Reply", tabindex: -1 },
      this.wait, this.thinking, this.content, this.callList, this.trouble, this.cost);
  }

  ended() {
    return this.reply.finish !== null;
  }

  // Draws soon; a long reply, which takes longer to draw, is drawn less often. The end is always drawn.
  change() {
    if (this.timer !== 0) return;
    const pause = Math.max(kShortestPause, kShare * (this.lastCost ?? 0));
    this.timer = setTimeout(() => this.draw(), pause);
  }

  draw() {
    clearTimeout(this.timer);
    this.timer = 0;
    const began = performance.now();
    this.drawThinking();
    this.contentView.show(this.reply.content);
    this.drawCalls();
    this.drawEnd();
    this.lastCost = performance.now() - began;
    this.onDrawn?.();
  }

  drawThinking() {
    const { reply } = this;
    this.thinking.hidden = reply.reasoning.trim() === "";
    if (this.thinking.hidden) return;
    const over = this.ended() || reply.content !== "" || reply.calls.length > 0;
    if (!this.touched) this.thinking.open = !over;
    const time = reply.timing ? seconds((reply.timing.thinking ?? reply.timing.total) - (reply.timing.first ?? 0)) : "";
    setText(this.summary, over ? `Thought for ${time || "a while"}` : `Thinking … ${time}`);
    this.thoughtsView.show(reply.reasoning);
  }

  drawCalls() {
    this.reply.calls.forEach((call, i) => {
      if (!this.calls[i]) {
        this.calls[i] = new CallView(call);
        this.callList.append(this.calls[i].node);
      }
      this.calls[i].show(call, resultOf(this.conversation, call), this.ended());
    });
  }

  drawEnd() {
    const { reply } = this;
    this.wait.hidden = this.ended() || reply.reasoning !== "" || reply.content !== "" || reply.calls.length > 0;
    this.node.setAttribute("aria-busy", String(!this.ended()));
    const sentence = reply.error ? `This reply failed: ${reply.error}.` : (endings[reply.finish] ?? "");
    this.trouble.hidden = sentence === "";
    this.trouble.classList.toggle("failed", Boolean(reply.error));
    setText(this.trouble, sentence);
    setText(this.cost, costText(reply));
  }

  // Says to screen readers what is new.
  speak() {
    const { reply } = this;
    if (!this.spoken && reply.reasoning !== "" && reply.content === "") {
      this.spoken = true;
      announce("Thinking.");
    }
    this.reader.feed(reply.content, this.ended());
    if (!this.ended() || this.closed) return;
    this.closed = true;
    for (const call of reply.calls) announce(`Tool ${call.name}.`);
    if (reply.error) announce(`This reply failed: ${reply.error}.`);
    else if (reply.finish === "stop") announce("End of the reply.");
  }
}
