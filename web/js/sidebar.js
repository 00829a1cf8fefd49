// The list of conversations. On a narrow screen it lies over the page and is opened by the menu button.
import { byId, el } from "./dom.js";
import { icon } from "./icons.js";

export class Sidebar {
  // actions: open(conversation), rename(conversation), remove(conversation)
  constructor(actions) {
    this.actions = actions;
    this.list = byId("conversations");
    this.menu = byId("menu");
    this.menu.append(icon("menu"));
    this.menu.addEventListener("click", () => this.setOpen(!this.isOpen()));
    byId("sidebar").addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.isOpen()) return;
      this.setOpen(false);
      this.menu.focus();
    });
    byId("page").addEventListener("click", (event) => {
      if (this.isOpen() && !this.menu.contains(event.target)) this.setOpen(false);
    });
  }

  isOpen() {
    return document.body.classList.contains("sidebar-open");
  }

  setOpen(open) {
    document.body.classList.toggle("sidebar-open", open);
    this.menu.setAttribute("aria-expanded", String(open));
    if (open) byId("new-chat").focus();
  }

  show(conversations, current) {
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.list.replaceChildren(...conversations.map((conversation) => this.entry(conversation, current)));
    if (focused) this.list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  entry(conversation, current) {
    const button = (name, verb, act) => el("button", {
      type: "button", class: "icon", "aria-label": `${verb} ${conversation.title}`, title: verb,
      "data-key": `${verb} ${conversation.id}`, onclick: act,
    }, icon(name));
    const open = el("button", {
      type: "button", class: "open", "data-key": `open ${conversation.id}`,
      "aria-current": conversation === current ? "true" : null,
      onclick: () => this.actions.open(conversation),
    }, conversation.title);
    return el("li", {}, open, button("edit", "Rename", () => this.actions.rename(conversation)),
      button("remove", "Delete", () => this.actions.remove(conversation)));
  }
}
