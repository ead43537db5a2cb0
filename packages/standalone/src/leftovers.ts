// SPDX-License-Identifier: Apache-2.0
// What must not stay on the host when a machine is down: bridges, mounts, namespaces and control groups of ours.
import { join } from "node:path";
import { NETWORK_ATTACHMENT_DEFINITIONS } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import type { Files, Logger, ProcessRunner, Store } from "@patchbay/ports";
import { isFields, parseFields, readFields, textOf } from "./json.ts";
import type { Paths } from "./paths.ts";

const TIMEOUT_MS = 10_000;
/** Prefix of the names of pods' network namespaces. */
const NETNS_PREFIX = "patchbay-";
const NETNS_DIR = "/run/netns";
const CGROUP_DIR = "/sys/fs/cgroup";

/** What cleaning needs. */
export interface CleaningDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
  readonly bootId: string;
}

async function listLinks(
  runner: ProcessRunner,
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { stdout } = await runner.run({
    argv: ["ip", "-j", "link", "show"],
    timeoutMs: TIMEOUT_MS,
  });
  const links: unknown = JSON.parse(stdout === "" ? "[]" : stdout);
  return Array.isArray(links) ? links.filter(isFields) : [];
}

/** Remembers, once in each boot, which links are not ours because they were there before. */
export async function rememberHostLinks(deps: CleaningDeps): Promise<void> {
  const { files, runner, paths, bootId } = deps;
  const file = join(paths.run, "host-links.json");
  if (textOf(await readFields(files, file), "bootId") === bootId) return;
  const links = (await listLinks(runner)).map((link) => textOf(link, "ifname")).sort();
  await files.writeAtomic(file, `${JSON.stringify({ bootId, links })}\n`);
}

function bridgesOfConfig(text: string): readonly string[] {
  const config = parseFields(text);
  const plugins = config?.["plugins"];
  const all: readonly unknown[] = Array.isArray(plugins) ? plugins : [config];
  return (
    all
      .filter(isFields)
      .filter((plugin) => textOf(plugin, "type") === "bridge")
      // Source: CNI plugin bridge, default of `bridge`.
      .map((plugin) => textOf(plugin, "bridge") || "cni0")
  );
}

/** The bridges that CNI makes for the networks of this machine; CNI itself never removes them. */
export async function listOwnBridges(
  deps: CleaningDeps,
  store: Store | undefined,
): Promise<readonly string[]> {
  const { files, paths } = deps;
  const configs = await Promise.all(
    (await files.list(paths.cniConf)).map((name) => files.readText(join(paths.cniConf, name))),
  );
  const nads = store === undefined ? undefined : await store.list(NETWORK_ATTACHMENT_DEFINITIONS);
  const texts = [...configs, ...(nads?.items ?? []).map((nad) => nad.spec?.config)];
  return [...new Set(texts.flatMap((text) => bridgesOfConfig(text ?? "")))].sort();
}

/** Removes the bridges that came in this boot and have no port any more. */
export async function removeBridges(deps: CleaningDeps, bridges: readonly string[]): Promise<void> {
  const { files, runner, paths, bootId, log } = deps;
  const before = await readFields(files, join(paths.run, "host-links.json"));
  if (textOf(before, "bootId") !== bootId) return;
  const old = before?.["links"];
  const links = await listLinks(runner);
  const isThere = (name: string): boolean => links.some((link) => textOf(link, "ifname") === name);
  const hasPort = (name: string): boolean => links.some((link) => textOf(link, "master") === name);
  const ours = bridges.filter(
    (name) => isThere(name) && !hasPort(name) && !(Array.isArray(old) && old.includes(name)),
  );
  for (const name of ours) {
    await runner.run({
      argv: ["ip", "link", "del", name, "type", "bridge"],
      timeoutMs: TIMEOUT_MS,
    });
    log.info("bridge removed", { link: name });
  }
}

/** Mount points below a directory, the innermost first. Source: proc(5) mountinfo. */
export function mountsBelow(mountinfo: string, directory: string): readonly string[] {
  return mountinfo
    .split("\n")
    .map((line) => (line.split(" ")[4] ?? "").replaceAll("\\040", " "))
    .filter((path) => path.startsWith(`${directory}/`))
    .reverse();
}

async function removeMounts({ files, runner, paths, log }: CleaningDeps): Promise<void> {
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  for (const path of mountsBelow(mountinfo, paths.dataDir)) {
    await runner.run({ argv: ["umount", path], timeoutMs: TIMEOUT_MS });
    log.warn("mount was left and is removed", { path });
  }
}

async function removeNamespaces({ files, runner, paths, log }: CleaningDeps): Promise<void> {
  const pods = await files.list(paths.pods);
  const names = await files.list(NETNS_DIR);
  for (const name of names) {
    if (!pods.some((uid) => name === `${NETNS_PREFIX}${uid}`)) continue;
    await runner.run({ argv: ["ip", "netns", "del", name], timeoutMs: TIMEOUT_MS });
    log.warn("network namespace was left and is removed", { object: name });
  }
}

/** The parent groups, when no pod (of another machine either) is in them. */
async function removeGroups({ files, runner }: CleaningDeps): Promise<void> {
  const controllers = await files.list(CGROUP_DIR);
  const parents = ["", ...controllers].map((name) => join(CGROUP_DIR, name, "patchbay"));
  for (const parent of parents) {
    if (!(await files.exists(parent))) continue;
    // Fails while somebody is in it, which is right.
    await runner.run({ argv: ["rmdir", parent], timeoutMs: TIMEOUT_MS });
  }
}

/** Removes what the components have left, and says so; nothing here stops the rest. */
export async function removeLeftovers(
  deps: CleaningDeps,
  bridges: readonly string[],
): Promise<void> {
  const steps = [removeMounts, removeNamespaces, removeGroups];
  for (const step of [...steps, () => removeBridges(deps, bridges)]) {
    try {
      await step(deps);
    } catch (error) {
      deps.log.warn("cannot clean up", { reason: messageOf(error), err: error });
    }
  }
}
