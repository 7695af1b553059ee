#!/usr/bin/env node
// Starts the binary of this platform's package, and ends as it ends.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");

function binary() {
  const musl = process.platform === "linux" && !process.report.getReport().header.glibcVersionRuntime;
  const name = `piton-agent-${process.platform}-${process.arch}${musl ? "-musl" : ""}`;
  const file = process.platform === "win32" ? "piton.exe" : "piton";
  try {
    return require.resolve(`${name}/bin/${file}`);
  } catch {
    console.error(
      `piton: the package ${name} is not installed. Either there is no Piton for this machine, or npm was told to ` +
        "leave out optional packages (--omit=optional): install again without that.",
    );
    process.exit(1);
  }
}

const child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });
// Ctrl-C reaches the binary from the terminal: this process only waits. Other signals are handed on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`piton: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(signal === null ? code : 128 + os.constants.signals[signal]);
});
