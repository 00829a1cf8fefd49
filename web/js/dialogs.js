// Short questions to the user, in a <dialog> that keeps the focus inside and gives it back.
import { byId } from "./dom.js";

let answerWith = null;

// Resolves with the text (or true, if nothing is to be written), or null if the user does not want to.
function ask({ title, text, value, yes, type = "text" }) {
  const dialog = byId("ask");
  if (dialog.open) return Promise.resolve(null);
  const input = byId("ask-input");
  byId("ask-title").textContent = title;
  byId("ask-text").textContent = text;
  byId("ask-yes").textContent = yes;
  input.hidden = value === undefined;
  input.type = type;
  input.value = value ?? "";
  dialog.returnValue = "";
  dialog.showModal();
  if (input.hidden) byId("ask-cancel").focus();
  else input.select();
  return new Promise((resolve) => (answerWith = resolve)).then((yesSaid) => {
    if (!yesSaid) return null;
    return value === undefined ? true : input.value;
  });
}

export function startDialogs() {
  byId("ask-cancel").addEventListener("click", () => byId("ask").close(""));
  byId("ask").addEventListener("close", () => answerWith?.(byId("ask").returnValue === "yes"));
}

export const askForTitle = (value) => ask({ title: "Rename the conversation", text: "Name", value, yes: "Rename" });

export const askToDelete = (title) =>
  ask({ title: "Delete the conversation?", text: `"${title}" will be gone for good.`, yes: "Delete" });

export const askForKey = (value) =>
  ask({ title: "This server wants a key", text: "Key, kept until the tab is closed", value, yes: "Use it", type: "password" });
