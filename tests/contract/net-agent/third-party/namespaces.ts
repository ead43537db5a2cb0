// SPDX-License-Identifier: Apache-2.0
// Network namespaces of a bench, and of benches that were killed.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { run } from "@patchbay/support";

const FAMILY = "pb3";
/** Prefix of this process's namespaces. */
export const NAME_PREFIX = `${FAMILY}${process.pid.toString(36)}-`;
export const NAMESPACE_DIR = "/run/netns";

/** Deletes a namespace and ends its processes, which would retain its links. */
function deleteNamespace(name: string): void {
  const pids = run("ip", "netns", "pids", name)
    .split("\n")
    .filter((pid) => pid !== "");
  for (const pid of pids) {
    try {
      process.kill(Number(pid), "SIGKILL");
    } catch {
      // The process has ended.
    }
  }
  run("ip", "netns", "del", name);
}

function isRunningBench(name: string): boolean {
  const pid = Number.parseInt(name.slice(FAMILY.length).split("-")[0] ?? "", 36);
  try {
    return readFileSync(`/proc/${String(pid)}/cmdline`, "utf8").includes("vitest");
  } catch {
    return false;
  }
}

function listNamespaces(prefix: string): readonly string[] {
  if (!existsSync(NAMESPACE_DIR)) return [];
  return readdirSync(NAMESPACE_DIR).filter((name) => name.startsWith(prefix));
}

/** Deletes namespaces of benches that were killed. */
export function removeLeftovers(): void {
  for (const name of listNamespaces(FAMILY)) if (!isRunningBench(name)) deleteNamespace(name);
}

/** Deletes this process's namespaces. */
export function deleteNamespaces(): void {
  for (const name of listNamespaces(NAME_PREFIX)) deleteNamespace(name);
}
