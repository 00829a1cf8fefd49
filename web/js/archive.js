// Conversations as a JSON file and back. A file is a stranger's: every field is checked and copied, none is
// taken over as it is.
import { newConversation } from "./conversation.js";

const kFormat = "perigee-conversations";
const kVersion = 1;
const kMostConversations = 10000;
const kMostMessages = 100000;

export function archiveText(conversations) {
  return JSON.stringify({ format: kFormat, version: kVersion, conversations }, null, 1);
}

function refuse(place, sentence) {
  throw new Error(`${place} ${sentence}`);
}

function text(value, place) {
  if (typeof value !== "string") refuse(place, "must be text");
  return value;
}

function list(value, place, most) {
  if (!Array.isArray(value)) refuse(place, "must be a list");
  if (value.length > most) refuse(place, `has more than ${most} entries`);
  return value;
}

function object(value, place) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) refuse(place, "must be an object");
  return value;
}

function textOrNull(value, place) {
  return value === null || value === undefined ? null : text(value, place);
}

function numbers(value, place, names) {
  if (value === null || value === undefined) return null;
  object(value, place);
  const copy = {};
  for (const name of names) {
    const number = value[name] ?? null;
    if (number !== null && !Number.isFinite(number)) refuse(`${place}.${name}`, "must be a number");
    copy[name] = number;
  }
  return copy;
}

function image(value, place) {
  if (!/^data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/=]*$/.test(text(value, place))) {
    refuse(place, "must be an image as a data URL");
  }
  return value;
}

function call(value, place) {
  object(value, place);
  return { id: text(value.id, `${place}.id`), name: text(value.name, `${place}.name`),
           arguments: text(value.arguments, `${place}.arguments`) };
}

const readers = {
  user: (value, place) => ({
    images: list(value.images ?? [], `${place}.images`, 100).map((one, i) => image(one, `${place}.images[${i}]`)),
  }),
  assistant: (value, place) => ({
    reasoning: text(value.reasoning ?? "", `${place}.reasoning`),
    calls: list(value.calls ?? [], `${place}.calls`, 1000).map((one, i) => call(one, `${place}.calls[${i}]`)),
    finish: textOrNull(value.finish, `${place}.finish`),
    error: textOrNull(value.error, `${place}.error`),
    usage: numbers(value.usage, `${place}.usage`, ["prompt", "completion", "reasoning", "cached"]),
    timing: numbers(value.timing, `${place}.timing`, ["first", "thinking", "total"]),
  }),
  tool: (value, place) => ({ call: text(value.call, `${place}.call`), name: text(value.name, `${place}.name`) }),
};

function message(value, place) {
  object(value, place);
  if (!Object.hasOwn(readers, value.role)) refuse(`${place}.role`, "must be user, assistant or tool");
  return { role: value.role, content: text(value.content, `${place}.content`), ...readers[value.role](value, place) };
}

function time(value) {
  return Number.isFinite(value) ? value : Date.now();
}

function conversation(value, place) {
  object(value, place);
  const messages = list(value.messages, `${place}.messages`, kMostMessages);
  return {
    ...newConversation(text(value.system ?? "", `${place}.system`)),
    title: text(value.title, `${place}.title`).slice(0, 200),
    named: value.named === true,
    created: time(value.created),
    changed: time(value.changed),
    messages: messages.map((one, i) => message(one, `${place}.messages[${i}]`)),
  };
}

// The conversations of an archive, with ids of their own, so that importing never overwrites anything. Throws an
// Error that names the first place that is wrong.
export function readArchive(source) {
  let archive;
  try {
    archive = JSON.parse(source);
  } catch {
    throw new Error("the file is no JSON");
  }
  object(archive, "the file");
  if (archive.format !== kFormat) refuse("format", `must be "${kFormat}"`);
  if (archive.version !== kVersion) refuse("version", `must be ${kVersion}`);
  return list(archive.conversations, "conversations", kMostConversations)
    .map((one, i) => conversation(one, `conversations[${i}]`));
}
