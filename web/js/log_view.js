// The messages of the shown conversation, and what can be done with each. Keeps the newest in sight as long as the
// reader has not scrolled away from it.
import { announce } from "./announcer.js";
import { byId, el } from "./dom.js";
import { icon } from "./icons.js";
import { ReplyView } from "./reply_view.js";

const kNearEnd = 80; // pixels that count as being at the end

function action(name, label, onclick) {
  return el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick }, icon(name));
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied.");
  } catch {
    announce("The browser does not allow copying here.");
  }
}

export class LogView {
  // actions: edit(message, text), branch(message), again(message); `busy()` says that a reply is under way.
  constructor(actions) {
    this.actions = actions;
    this.node = byId("log");
    this.toEnd = byId("to-end");
    this.views = new Map(); // message → {node, view?}
    this.node.addEventListener("scroll", () => this.lookAtEnd());
    this.toEnd.addEventListener("click", () => {
      this.scrollToEnd();
      this.node.focus();
    });
  }

  show(conversation) {
    this.conversation = conversation;
    this.views.clear();
    this.node.replaceChildren();
    this.refresh();
    this.scrollToEnd();
  }

  // Brings the list in line with the conversation's messages.
  refresh() {
    const shown = this.conversation.messages.filter((message) => message.role !== "tool");
    for (const [message, { node }] of this.views) {
      if (shown.includes(message)) continue;
      node.remove();
      this.views.delete(message);
    }
    for (const message of shown) if (!this.views.has(message)) this.add(message);
    byId("welcome").hidden = shown.length > 0;
    this.lookAtEnd();
  }

  add(message) {
    if (message.role === "user") {
      this.append(message, this.question(message));
      return;
    }
    const view = new ReplyView(this.conversation, message);
    view.node.append(el("div", { class: "actions" },
      action("copy", "Copy the answer", () => copyText(message.content)),
      action("again", "Answer again", () => this.actions.again(message)),
      action("branch", "Continue in a new conversation", () => this.actions.branch(message))));
    view.onDrawn = () => this.keepEnd();
    view.closed = view.ended(); // what was there before is not read out
    if (view.closed) view.reader.said = message.content.length;
    this.append(message, view.node, view);
    view.draw();
  }

  append(message, node, view) {
    this.atEnd ??= true;
    this.node.append(node);
    this.views.set(message, { node, view });
    this.keepEnd();
  }

  changed(reply) {
    this.refresh();
    const { view } = this.views.get(reply) ?? {};
    if (!view) return;
    if (view.ended()) view.draw();
    else view.change();
    view.speak();
  }

  question(message) {
    const body = el("div", { class: "bubble" });
    const buttons = el("div", { class: "actions" },
      action("copy", "Copy the question", () => copyText(message.content)),
      action("edit", "Edit and ask again", () => this.edit(message, node, body, buttons)),
      action("branch", "Continue in a new conversation", () => this.actions.branch(message)));
    const images = message.images.map((url, i) => el("img", { src: url, alt: `Image ${i + 1}` }));
    body.append(...images, el("p", { class: "plain" }, message.content));
    const node = el("article", { class: "question", "aria-label": "Question" }, body, buttons);
    return node;
  }

  edit(message, node, body, buttons) {
    if (this.actions.busy()) return;
    const text = el("textarea", { rows: 3, "aria-label": "Edit the question" });
    text.value = message.content;
    const close = () => {
      form.replaceWith(body);
      buttons.hidden = false;
      buttons.querySelector("button").focus();
    };
    const form = el("form", { class: "edit", onsubmit: (event) => {
      event.preventDefault();
      if (text.value.trim() !== "") this.actions.edit(message, text.value);
    }, onkeydown: (event) => {
      if (event.key === "Escape") close();
    } }, text, el("p", { class: "small" }, "What came after this question will be replaced."),
      el("div", { class: "bar" }, el("button", { type: "button", class: "quiet", onclick: close }, "Cancel"),
        el("button", { type: "submit" }, "Ask again")));
    body.replaceWith(form);
    buttons.hidden = true;
    text.focus();
  }

  scrollToEnd() {
    this.node.scrollTop = this.node.scrollHeight;
    this.lookAtEnd();
  }

  lookAtEnd() {
    this.atEnd = this.node.scrollHeight - this.node.scrollTop - this.node.clientHeight < kNearEnd;
    this.toEnd.hidden = this.atEnd;
  }

  keepEnd() {
    if (this.atEnd) this.scrollToEnd();
    else this.lookAtEnd();
  }
}
