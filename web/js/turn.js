// One turn: a reply is streamed into its message; if it calls tools, they are run here and the model goes on with
// their results. Knows nothing of how a message is shown; `onChange` is called after every change.
import { chatChunks } from "./api.js";
import { newReply, requestOf, uniqueCallId } from "./conversation.js";
import { runTool } from "./tools.js";

const kMostRounds = 8; // a model that calls tools forever is stopped

function takeCall(reply, delta, conversation) {
  let call = reply.calls[delta.index];
  if (!call) {
    const id = uniqueCallId(conversation, delta.id ?? `call_${delta.index}`);
    call = reply.calls[delta.index] = { id, name: delta.function?.name ?? "", arguments: "" };
  }
  call.arguments += delta.function?.arguments ?? "";
}

function takeUsage(reply, usage) {
  reply.usage = {
    prompt: usage.prompt_tokens ?? 0,
    completion: usage.completion_tokens ?? 0,
    reasoning: usage.completion_tokens_details?.reasoning_tokens ?? 0,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
  };
}

function takeTime(reply, started, said) {
  const now = performance.now();
  const timing = (reply.timing ??= { first: null, thinking: null, total: 0 });
  timing.total = (now - started) / 1000;
  if (said && timing.first === null) timing.first = timing.total;
  if (said && timing.thinking === null && (reply.content !== "" || reply.calls.length > 0)) {
    timing.thinking = timing.total;
  }
}

function takeChunk(reply, chunk, conversation, started) {
  const choice = chunk.choices?.[0];
  const delta = choice?.delta ?? {};
  reply.reasoning += delta.reasoning_content ?? "";
  reply.content += delta.content ?? "";
  for (const call of delta.tool_calls ?? []) takeCall(reply, call, conversation);
  if (choice?.finish_reason) reply.finish = choice.finish_reason;
  const usage = chunk.usage ?? choice?.usage;
  if (usage) takeUsage(reply, usage);
  takeTime(reply, started, Boolean(delta.reasoning_content || delta.content || delta.tool_calls));
}

async function streamReply(turn, reply) {
  const started = performance.now();
  const body = requestOf(turn.conversation, turn.settings, turn.model);
  turn.conversation.messages.push(reply);
  turn.onChange(reply);
  try {
    for await (const chunk of chatChunks(body, turn.signal)) {
      takeChunk(reply, chunk, turn.conversation, started);
      turn.onChange(reply);
    }
  } catch (error) {
    reply.finish = turn.signal.aborted ? "stopped" : "error";
    if (!turn.signal.aborted) reply.error = error.message;
    if (error.status === 401) turn.onKeyNeeded();
  }
  turn.onChange(reply);
}

function runCalls(turn, reply) {
  for (const call of reply.calls) {
    turn.conversation.messages.push({ role: "tool", call: call.id, name: call.name, content: runTool(call) });
  }
  turn.onChange(reply);
}

// turn: conversation, settings, model, signal, onChange(reply), onKeyNeeded(). Never throws; what goes wrong is the
// reply's `error`.
export async function answer(turn) {
  for (let round = 0; round < kMostRounds; ++round) {
    const reply = newReply();
    await streamReply(turn, reply);
    if (reply.finish !== "tool_calls" || !turn.settings.demoTools || turn.signal.aborted) return;
    runCalls(turn, reply);
  }
}
