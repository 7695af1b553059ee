#!/usr/bin/env node
// An MCP server without a library: it counts words. One JSON message a line, in on stdin, out on stdout. Node 24 runs it as it is.

import { createInterface } from "node:readline";

type Message = { id?: number | string; method: string; params?: Record<string, unknown> };
type Method = (params: Record<string, unknown>) => unknown;

const tool = {
  name: "count_words",
  description: "Counts the words of a text.",
  inputSchema: {
    type: "object",
    properties: { text: { type: "string" } },
    required: ["text"],
  },
};

const methods: Record<string, Method> = {
  initialize: (params) => ({
    protocolVersion: params.protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "words", version: "1" },
    instructions: "Counts words. Do not count yourself.",
  }),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": (params) => {
    const { text } = params.arguments as { text: string };
    const words = text.split(/\s+/).filter(Boolean).length;
    return { content: [{ type: "text", text: `${words} words` }] };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const message: Message = JSON.parse(line);
  if (message.id === undefined) continue; // a notification wants no answer
  const method = methods[message.method];
  const answer = method
    ? { result: method(message.params ?? {}) }
    : { error: { code: -32601, message: "no such method" } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...answer }));
}
