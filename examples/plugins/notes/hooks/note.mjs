// A hook: notes each file that was changed in the plugin's data folder, and tells the model how many there are.

import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";

const call = JSON.parse(readFileSync(0, "utf8"));
const file = join(process.env.CLAUDE_PLUGIN_DATA, "changed.txt");

appendFileSync(file, `${call.tool_input.file_path}\n`);
const changed = new Set(readFileSync(file, "utf8").trim().split("\n"));

console.log(JSON.stringify({
  hookSpecificOutput: {
    hookEventName: "PostToolUse",
    additionalContext: `${changed.size} files are on the list of changed files.`,
  },
}));
