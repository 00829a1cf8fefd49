// Puts the page together: which conversation is shown, what the buttons do, which reply is under way. The parts
// know nothing of each other.
import { announce } from "./announcer.js";
import { getJson, key, setKey } from "./api.js";
import { archiveText, readArchive } from "./archive.js";
import { addQuestion, branchOf, newConversation } from "./conversation.js";
import { askForKey, askForTitle, askToDelete, startDialogs } from "./dialogs.js";
import { byId, el, setText } from "./dom.js";
import { icon } from "./icons.js";
import { Images } from "./images.js";
import { LogView } from "./log_view.js";
import { MachineView } from "./machine_view.js";
import { settings, startSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { Storage } from "./storage.js";
import { nextTheme, theme } from "./theme.js";
import { answer } from "./turn.js";

const kSavePause = 1000; // milliseconds between savings of a reply that streams
const kLargestImport = 256 << 20;

const composer = byId("composer-text");
let conversations = [];
let current = newConversation();
let model = null; // its name, once the server has said it
let running = null; // AbortController of the reply under way
let saveTimer = 0;

function notice(sentence) {
  const close = el("button", { type: "button", class: "quiet", onclick: () => line.remove() }, "Close");
  const line = el("p", {}, sentence, close);
  byId("notices").append(line);
}

const storage = new Storage(notice, (saving) => document.body.toggleAttribute("data-saving", saving));
const images = new Images(notice);
const machine = new MachineView(byId("machine"), () => needKey());
const log = new LogView({ busy: () => running !== null, edit, again, branch });
const sidebar = new Sidebar({ open, rename, remove });

// --- conversations ---

function show() {
  setText(byId("title"), current.title);
  document.title = current.messages.length > 0 ? `${current.title} – Perigee` : "Perigee";
  conversations.sort((a, b) => b.changed - a.changed);
  sidebar.show(conversations, current);
}

function open(conversation) {
  stop();
  current = conversation;
  sidebar.setOpen(false);
  location.hash = "#chat";
  show();
  log.show(current);
  composer.focus();
}

// A conversation is kept from its first message on.
function keep(conversation = current) {
  conversation.changed = Date.now();
  if (!conversations.includes(conversation)) conversations.push(conversation);
  storage.put(conversation);
  show();
}

async function rename(conversation) {
  const title = (await askForTitle(conversation.title))?.trim();
  if (!title) return;
  Object.assign(conversation, { title, named: true });
  keep(conversation);
}

async function remove(conversation) {
  if (!(await askToDelete(conversation.title))) return;
  conversations = conversations.filter((other) => other !== conversation);
  storage.remove(conversation.id);
  if (conversation === current) open(newConversation(current.system));
  else show();
  byId("new-chat").focus();
  announce("Deleted.");
}

function branch(message) {
  const copy = branchOf(current, message);
  open(copy);
  keep(copy);
}

function exportAll() {
  const file = new Blob([archiveText(conversations)], { type: "application/json" });
  const link = el("a", { href: URL.createObjectURL(file), download: "perigee-conversations.json" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function importFile(file) {
  try {
    if (file.size > kLargestImport) throw new Error("the file is larger than 256 MB");
    const added = readArchive(await file.text());
    conversations.push(...added);
    for (const conversation of added) await storage.put(conversation);
    show();
    announce(`${added.length} conversations imported.`);
  } catch (error) {
    notice(`Nothing was imported from ${file.name}: ${error.message}.`);
  }
}

// A reply that was under way when the page was closed has ended there.
function withoutOpenReply(conversation) {
  for (const message of conversation.messages) {
    if (message.role === "assistant") message.finish ??= "stopped";
  }
  return conversation;
}

// --- replies ---

function setRunning(controller) {
  running = controller;
  byId("send").hidden = controller !== null;
  byId("stop").hidden = controller === null;
  document.body.classList.toggle("running", controller !== null);
}

function stop() {
  running?.abort();
}

function saveSoon(conversation) {
  saveTimer ||= setTimeout(() => {
    saveTimer = 0;
    storage.put(conversation);
  }, kSavePause);
}

async function reply() {
  const conversation = current;
  const controller = new AbortController();
  setRunning(controller);
  await answer({
    conversation, settings: { ...settings }, model, signal: controller.signal, onKeyNeeded: needKey,
    onChange: (message) => {
      if (conversation === current) log.changed(message);
      saveSoon(conversation);
    },
  });
  if (running === controller) setRunning(null);
  clearTimeout(saveTimer);
  saveTimer = 0;
  if (conversations.includes(conversation)) keep(conversation);
}

function send() {
  const text = composer.value;
  if (running || (text.trim() === "" && images.urls.length === 0)) return;
  composer.value = "";
  addQuestion(current, text, images.take());
  keep();
  log.refresh();
  log.scrollToEnd();
  reply();
}

// Everything from this message on goes, and what is left is answered.
function answerFrom(index) {
  current.messages.length = index;
  keep();
  log.refresh();
  composer.focus();
  reply();
}

function edit(message, text) {
  if (running) return;
  const index = current.messages.indexOf(message);
  current.messages.splice(index, Infinity, { ...message, content: text });
  answerFrom(index + 1);
}

// A turn is answered again from its question on, whatever tools it has called meanwhile.
function again(message) {
  if (running) return;
  const index = current.messages.indexOf(message);
  answerFrom(current.messages.findLastIndex((other, i) => i < index && other.role === "user") + 1);
}

// --- the server ---

async function needKey() {
  const value = await askForKey(key());
  if (value === null) return;
  setKey(value.trim());
  await meetServer();
}

async function meetServer() {
  try {
    const served = (await getJson("/v1/models")).data[0];
    model = served.id;
    images.setSeen(served.supports_image_in === true);
    composer.placeholder = `Ask ${model}`;
  } catch (error) {
    if (error.status === 401) await needKey();
    else notice(`The server cannot be reached: ${error.message}.`);
  }
}

// --- the page ---

function showView() {
  const wanted = location.hash === "#machine" ? "machine" : "chat";
  for (const view of ["chat", "machine"]) {
    byId(view).hidden = view !== wanted;
    if (view === wanted) byId(`show-${view}`).setAttribute("aria-current", "page");
    else byId(`show-${view}`).removeAttribute("aria-current");
  }
  machine.setShown(wanted === "machine");
}

function showTheme() {
  byId("theme").replaceChildren(icon(theme()));
  byId("theme").setAttribute("aria-label", `Colours: ${theme()}`);
}

function fitComposer() {
  composer.style.height = "auto";
  composer.style.height = `${Math.min(composer.scrollHeight, 240)}px`;
}

function listen() {
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
    fitComposer();
  });
  composer.addEventListener("keydown", (event) => {
    if (event.key === "Escape") stop();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("composer").requestSubmit();
  });
  composer.addEventListener("input", fitComposer);
  byId("stop").addEventListener("click", () => {
    stop();
    composer.focus();
  });
  byId("new-chat").addEventListener("click", () => open(newConversation(current.system)));
  byId("export").addEventListener("click", exportAll);
  byId("import").addEventListener("click", () => byId("import-file").click());
  byId("import-file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) await importFile(file);
    event.target.value = "";
  });
  byId("theme").addEventListener("click", () => {
    announce(`Colours: ${nextTheme()}`);
    showTheme();
  });
  addEventListener("hashchange", showView);
  addEventListener("pagehide", () => running && storage.put(current));
}

async function start() {
  byId("open-settings").append(icon("settings"));
  startDialogs();
  startSettings(() => current, (text) => {
    current.system = text;
    if (conversations.includes(current)) saveSoon(current);
  });
  listen();
  showTheme();
  showView();
  images.setSeen(false);
  conversations = (await storage.open()).map(withoutOpenReply);
  conversations.sort((a, b) => b.changed - a.changed);
  if (conversations.length > 0) current = conversations[0];
  show();
  log.show(current);
  if (location.hash !== "#machine") composer.focus();
  await meetServer();
  document.body.dataset.ready = "yes";
}

start();
