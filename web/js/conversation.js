// What a conversation is, and how it is sent. Plain data, so that it can be stored, exported and compared.
//
//   conversation: id, title, named (by the user), created, changed, system, messages
//   message:      {role: "user", content, images: [data URL]}
//                 {role: "assistant", content, reasoning, calls: [{id, name, arguments}], finish, error, usage, timing}
//                 {role: "tool", call, name, content}
import { declarations } from "./tools.js";

export const kUntitled = "New conversation";
const kTitleLength = 48;

export function newConversation(system = "") {
  const now = Date.now();
  return { id: crypto.randomUUID?.() ?? `c${now}-${Math.random().toString(36).slice(2)}`, title: kUntitled,
           named: false, created: now, changed: now, system, messages: [] };
}

export function newReply() {
  return { role: "assistant", content: "", reasoning: "", calls: [], finish: null, error: null, usage: null,
           timing: null };
}

export function addQuestion(conversation, text, images) {
  conversation.messages.push({ role: "user", content: text, images });
  if (!conversation.named && conversation.title === kUntitled) {
    const line = text.trim().split("\n", 1)[0];
    conversation.title = line.length > kTitleLength ? `${line.slice(0, kTitleLength)}…` : line || kUntitled;
  }
}

// A conversation of its own with the messages up to this one.
export function branchOf(conversation, message) {
  const end = conversation.messages.indexOf(message) + 1;
  const branch = newConversation(conversation.system);
  return { ...branch, title: conversation.title, named: conversation.named,
           messages: structuredClone(conversation.messages.slice(0, end)) };
}

export function resultOf(conversation, call) {
  return conversation.messages.find((message) => message.role === "tool" && message.call === call.id);
}

// Ids of calls repeat from reply to reply; here they are made unique, because results refer to them.
export function uniqueCallId(conversation, id) {
  const taken = new Set(conversation.messages.flatMap((message) => (message.calls ?? []).map((call) => call.id)));
  let unique = id;
  for (let i = 2; taken.has(unique); ++i) unique = `${id}-${i}`;
  return unique;
}

function userContent(message) {
  if (message.images.length === 0) return message.content;
  const images = message.images.map((url) => ({ type: "image_url", image_url: { url } }));
  return [...images, { type: "text", text: message.content }];
}

// Null for a reply that holds nothing, e.g. one that failed at once. Calls without a result were never run.
function assistantMessage(conversation, message) {
  const calls = message.calls.filter((call) => resultOf(conversation, call));
  if (message.content === "" && message.reasoning === "" && calls.length === 0) return null;
  const sent = { role: "assistant", content: message.content };
  if (message.reasoning !== "") sent.reasoning_content = message.reasoning;
  if (calls.length > 0) {
    sent.tool_calls = calls.map((call) => ({
      id: call.id, type: "function", function: { name: call.name, arguments: call.arguments },
    }));
  }
  return sent;
}

function sentMessages(conversation) {
  const sent = conversation.system.trim() === "" ? [] : [{ role: "system", content: conversation.system }];
  for (const message of conversation.messages) {
    if (message.role === "user") sent.push({ role: "user", content: userContent(message) });
    if (message.role === "tool") sent.push({ role: "tool", tool_call_id: message.call, content: message.content });
    const reply = message.role === "assistant" ? assistantMessage(conversation, message) : null;
    if (reply) sent.push(reply);
  }
  return sent;
}

// The body of POST /v1/chat/completions. An absent value leaves the server its default.
export function requestOf(conversation, settings, model) {
  const body = { model, messages: sentMessages(conversation), stream: true,
                 stream_options: { include_usage: true, continuous_usage_stats: true } };
  if (settings.effort === "off") body.thinking = { type: "disabled" };
  else body.reasoning_effort = settings.effort;
  for (const name of ["temperature", "top_p", "top_k", "seed", "max_tokens"]) {
    if (settings[name] !== null) body[name] = settings[name];
  }
  if (settings.demoTools) body.tools = declarations;
  return body;
}
