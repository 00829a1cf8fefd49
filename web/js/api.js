// The server's routes as functions. Knows nothing of the page. The key, if the server wants one, stays in
// sessionStorage: it goes when the tab is closed, and no other site can read it.
import { eventData } from "./sse.js";

const kKey = "perigee.key";
let keyInMemory = "";

export function key() {
  try {
    return sessionStorage.getItem(kKey) ?? keyInMemory;
  } catch {
    return keyInMemory;
  }
}

export function setKey(value) {
  keyInMemory = value;
  try {
    sessionStorage.setItem(kKey, value);
  } catch {
    // It is kept as long as the page is.
  }
}

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status; // 0: no answer at all
  }
}

function headers() {
  return key() === "" ? {} : { Authorization: `Bearer ${key()}` };
}

async function errorOf(response) {
  let message = `the server answered with status ${response.status}`;
  try {
    message = (await response.json()).error.message ?? message;
  } catch {
    // Its body is no error of ours; the status says enough.
  }
  const wait = response.headers.get("Retry-After");
  if (response.status === 429 && wait) message += ` (try again in ${wait} s)`;
  return new ServerError(response.status, message);
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "the server does not answer");
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function getJson(path, signal) {
  return (await ask(path, { signal })).json();
}

// The chunks of a streamed chat completion.
export async function* chatChunks(body, signal) {
  const response = await ask("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  let done = false;
  for await (const data of eventData(response.body)) {
    done ||= data === "[DONE]";
    if (done) continue; // reads to the end, so that the connection can be used again
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ServerError(chunk.error.code ?? 500, chunk.error.message);
    yield chunk;
  }
  if (!done) throw new ServerError(0, "the connection ended before the reply did");
}
