#!/usr/bin/env node
// An MCP server without a library: it counts words. One JSON message a line, in on stdin, out on stdout.

import { createInterface } from "node:readline";

const tool = {
  name: "count_words",
  description: "Counts the words of a text.",
  inputSchema: {
    type: "object",
    properties: { text: { type: "string" } },
    required: ["text"],
  },
};

const methods = {
  initialize: (params) => ({
    protocolVersion: params.protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "words", version: "1" },
    instructions: "Counts words. Do not count yourself.",
  }),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": (params) => {
    const words = params.arguments.text.split(/\s+/).filter(Boolean).length;
    return { content: [{ type: "text", text: `${words} words` }] };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.id === undefined) continue; // a notification wants no answer
  const method = methods[message.method];
  const reply = { jsonrpc: "2.0", id: message.id };
  if (method) reply.result = method(message.params ?? {});
  else reply.error = { code: -32601, message: "no such method" };
  console.log(JSON.stringify(reply));
}
