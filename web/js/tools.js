// Two harmless tools that run in this page, so that a model's calls can be seen at work. They read nothing but
// their arguments and the clock.
import { calculate } from "./calculate.js";

function textOf(value, name) {
  if (typeof value !== "string") throw new Error(`${name} must be text`);
  return value;
}

function timeIn(zone) {
  const options = { dateStyle: "full", timeStyle: "medium", timeZone: zone };
  try {
    return new Intl.DateTimeFormat("en", options).format(new Date());
  } catch {
    throw new Error(`there is no time zone ${zone}`);
  }
}

function declaration(name, description, properties, required) {
  return { type: "function", function: { name, description, parameters: { type: "object", properties, required } } };
}

const tools = new Map([
  ["calculate", {
    declaration: declaration("calculate", "Evaluate an arithmetic expression.",
      { expression: { type: "string", description: "An expression such as (2 + 3) * 4" } }, ["expression"]),
    run: (given) => String(calculate(textOf(given.expression, "expression"))),
  }],
  ["get_time", {
    declaration: declaration("get_time", "Current time in a time zone.",
      { timezone: { type: "string", description: "For example Europe/Berlin" } }, []),
    run: (given) => timeIn(given.timezone === undefined ? undefined : textOf(given.timezone, "timezone")),
  }],
]);

export const declarations = [...tools.values()].map((tool) => tool.declaration);

// What the tool answers; for a call that makes no sense, a sentence that says why.
export function runTool(call) {
  const tool = tools.get(call.name);
  if (!tool) return `error: there is no tool ${call.name}`;
  try {
    const given = JSON.parse(call.arguments || "{}");
    if (given === null || typeof given !== "object") throw new Error("the arguments are no JSON object");
    return tool.run(given);
  } catch (error) {
    return `error: ${error.message}`;
  }
}
