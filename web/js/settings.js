// What the user has chosen for the next replies; kept in localStorage. The system prompt belongs to a conversation and
// the key to the session, so they are kept elsewhere.
import { key, setKey } from "./api.js";
import { byId } from "./dom.js";

const kKey = "perigee.settings";
const numbers = ["temperature", "top_p", "top_k", "seed", "max_tokens"];
const efforts = ["off", "low", "high", "max"];

function read() {
  let stored = {};
  try {
    stored = JSON.parse(localStorage.getItem(kKey)) ?? {};
  } catch {
    // Forbidden or damaged; the defaults hold.
  }
  const settings = { effort: efforts.includes(stored.effort) ? stored.effort : "max", demoTools: stored.demoTools === true };
  for (const name of numbers) settings[name] = Number.isFinite(stored[name]) ? stored[name] : null;
  return settings;
}

export const settings = read();

function keep() {
  try {
    localStorage.setItem(kKey, JSON.stringify(settings));
  } catch {
    // They hold for this tab.
  }
}

function bindNumber(name) {
  const input = byId(name);
  input.value = settings[name] ?? "";
  input.addEventListener("input", () => {
    if (!input.checkValidity()) return; // the form refuses to close
    settings[name] = input.value === "" ? null : input.valueAsNumber;
    keep();
  });
}

// `conversation()` is the one whose system prompt is shown; `onSystem` hears of a change to it.
export function startSettings(conversation, onSystem) {
  const dialog = byId("settings");
  numbers.forEach(bindNumber);
  byId("effort").value = settings.effort;
  byId("effort").addEventListener("change", (event) => {
    settings.effort = event.target.value;
    keep();
  });
  byId("demo-tools").checked = settings.demoTools;
  byId("demo-tools").addEventListener("change", (event) => {
    settings.demoTools = event.target.checked;
    keep();
  });
  byId("key").addEventListener("input", (event) => setKey(event.target.value.trim()));
  byId("system").addEventListener("input", (event) => onSystem(event.target.value));
  byId("open-settings").addEventListener("click", () => {
    byId("system").value = conversation().system;
    byId("key").value = key();
    dialog.showModal();
  });
}
