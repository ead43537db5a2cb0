// SPDX-License-Identifier: Apache-2.0
// Kills a running service right after one of its actions, injected by Node.js's inspector instead of a service flag.
import { evaluateIn } from "./inspector.ts";

/**
 * Counts external actions: API write responses, ended programs, renamed files, logged steps; kills at number `deadly`.
 * Patches Node.js modules in place, which affects importers too.
 */
const HOOKS = `(deadly) => {
  const load = process.getBuiltinModule;
  const isHooked = globalThis.fate !== undefined;
  const fate = (globalThis.fate ??= {});
  Object.assign(fate, { deadly, count: 0 });
  if (isHooked) return;
  const note = () => { if (++fate.count === fate.deadly) process.kill(process.pid, "SIGKILL"); };
  load("node:diagnostics_channel").subscribe("undici:request:headers", ({ request }) => {
    if (request.method !== "GET") note();
  });
  const children = load("node:child_process");
  const { spawn } = children;
  children.spawn = (...words) => spawn(...words).once("exit", note);
  // Programs that the addon of os has started; it is loaded once.
  const loaded = Object.values(load("node:module")._cache).map((each) => each.exports);
  const addon = loaded.find((each) => typeof each?.reapProgram === "function");
  const reapProgram = addon?.reapProgram;
  if (addon !== undefined) addon.reapProgram = (pid) => {
    const end = reapProgram(pid);
    note();
    return end;
  };
  const files = load("node:fs/promises");
  const { rename } = files;
  files.rename = async (...paths) => { await rename(...paths); note(); };
  const { write } = process.stderr;
  process.stderr.write = (text, ...rest) => {
    const written = write.call(process.stderr, text, ...rest);
    if (String(text).includes('"performed step"')) note();
    return written;
  };
  load("node:module").syncBuiltinESMExports();
}`;

/** From now on the process dies right after its action of that number. */
export async function strikeAt(pid: number, deadly: number): Promise<void> {
  await evaluateIn(pid, `(${HOOKS})(${String(deadly)})`);
}
