// A hook: notes each file that was changed in the plugin's data folder, and tells the model how many there are.
// Node runs it as it is from 22.18 on.

import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface Call {
  tool_name: string;
  tool_input: { file_path: string };
}

interface Answer {
  hookSpecificOutput: { hookEventName: "PostToolUse"; additionalContext: string };
}

const call: Call = JSON.parse(readFileSync(0, "utf8"));
const file: string = join(process.env.CLAUDE_PLUGIN_DATA as string, "changed.txt");

appendFileSync(file, `${call.tool_input.file_path}\n`);
const changed = new Set<string>(readFileSync(file, "utf8").trim().split("\n"));

const answer: Answer = {
  hookSpecificOutput: {
    hookEventName: "PostToolUse",
    additionalContext: `${changed.size} files are on the list of changed files.`,
  },
};
console.log(JSON.stringify(answer));
