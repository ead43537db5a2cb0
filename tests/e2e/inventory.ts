// SPDX-License-Identifier: Apache-2.0
// A machine's traces on this host: namespaces, links, leases, processes, mounts.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { eventually, netnsOfPod } from "@patchbay/support";
import { inventoryOfNetns } from "../faults/netns-inventory.ts";
import { CHANGE_MS, machine } from "./machine.ts";

function tryRead<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    // A process or file that vanished meanwhile.
    return undefined;
  }
}

export function ipIn(podUid: string, ...args: readonly string[]): string {
  const { path } = netnsOfPod(machine.dataDir, podUid);
  return execFileSync("nsenter", [`--net=${path}`, "ip", ...args], {
    encoding: "utf8",
  });
}

export function linksOf(podUid: string): readonly string[] {
  // `ip -j` prints a list of objects with ifname.
  const links = JSON.parse(ipIn(podUid, "-j", "link")) as readonly { readonly ifname: string }[];
  return links.map(({ ifname }) => ifname).sort();
}

/** Pids of that program in a pod's network namespace. */
export function processesIn(podUid: string, program: string): readonly number[] {
  const { inode } = netnsOfPod(machine.dataDir, podUid);
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter(
      (pid) =>
        tryRead(() => readFileSync(`/proc/${pid}/comm`, "utf8"))?.trim() === program &&
        tryRead(() => readlinkSync(`/proc/${pid}/ns/net`)) === `net:[${inode}]`,
    )
    .map(Number);
}

export function childrenOf(pid: number): readonly number[] {
  const text = tryRead(() =>
    readFileSync(`/proc/${String(pid)}/task/${String(pid)}/children`, "utf8"),
  );
  return (text ?? "")
    .trim()
    .split(" ")
    .filter((word) => word !== "")
    .map(Number);
}

/** Addresses that host-local assigned on a network. Source: CNI host-local, one file per address. */
export function leaseFiles(network: string): readonly string[] {
  const names = tryRead(() => readdirSync(join("/var/lib/cni/networks", network))) ?? [];
  return names.filter((name) => /^\d/.test(name)).sort();
}

/** Network namespaces, host links, mounts and processes of the machine that concern `text`. */
export function tracesOf(text: string): readonly string[] {
  const netns = tryRead(() => readdirSync("/run/netns")) ?? [];
  const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n");
  const processes = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      const command = tryRead(() => readFileSync(`/proc/${pid}/cmdline`, "utf8"))?.replaceAll(
        "\0",
        " ",
      );
      const directory = tryRead(() => readlinkSync(`/proc/${pid}/cwd`));
      return [`${command ?? ""} ${directory ?? ""}`];
    });
  return [...netns, ...mounts, ...processes].filter((entry) => entry.includes(text));
}

/** Names of the host ends of veth pairs on this machine's bridges, sorted. */
export function hostVeths(): readonly string[] {
  const text = execFileSync("ip", ["-j", "link", "show", "type", "veth"], { encoding: "utf8" });
  // `ip -j` prints a list of objects; without any link they are empty.
  const links = JSON.parse(text) as readonly {
    readonly ifname?: string;
    readonly master?: string;
  }[];
  return links
    .filter(({ master }) => master?.startsWith("pbt") === true)
    .flatMap(({ ifname }) => ifname ?? [])
    .sort();
}

/** Files below a directory and its subdirectories; none if it is missing. */
function filesBelow(directory: string): readonly string[] {
  const options = { recursive: true, withFileTypes: true } as const;
  const entries = tryRead(() => readdirSync(directory, options)) ?? [];
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort();
}

/** Persistent directories of a node's agents, relative to the machine's. */
const STATE_DIRS = ["net-agent", "virt-handler"];

/**
 * Everything that a NIC of the launcher of `podUid` may leave on the host: links, addresses, rules and programs in the
 * pod's namespace; veths, leases, mounts and agent files on the host. Equal for equal NICs.
 */
export function inventoryOf(podUid: string): Readonly<Record<string, unknown>> {
  return {
    ...inventoryOfNetns(netnsOfPod(machine.dataDir, podUid)),
    hostVeths: hostVeths().length,
    leases: ["pbt-blue", "pbt-red"].map((network) => leaseFiles(network).length),
    mounts: readFileSync("/proc/self/mounts", "utf8")
      .split("\n")
      .filter((line) => line.includes(machine.dataDir))
      .sort(),
    state: STATE_DIRS.flatMap((name) => filesBelow(join(machine.dataDir, name))),
  };
}

/** Number of objects per kind on a node, by its data directory: equal for equal guests. */
export function countsOf(dataDir: string): Readonly<Record<string, number>> {
  return {
    traces: tracesOf(dataDir).length,
    pods: (tryRead(() => readdirSync(join(dataDir, "pods"))) ?? []).length,
    state: STATE_DIRS.flatMap((name) => filesBelow(join(dataDir, name))).length,
    hostVeths: hostVeths().length,
  };
}

/** Looks at a machine at rest. */
const REST = { looks: 20, everyMs: 100 };

/** {@link countsOf} at rest: the least of several looks, because programs that run for a moment count too. */
export async function countsAtRest(dataDir: string): Promise<Readonly<Record<string, number>>> {
  let least = countsOf(dataDir);
  for (let look = 1; look < REST.looks; look += 1) {
    await delay(REST.everyMs);
    const counts = countsOf(dataDir);
    const entries = Object.entries(least);
    least = Object.fromEntries(
      entries.map(([name, count]) => [name, Math.min(count, counts[name] ?? count)]),
    );
  }
  return least;
}

/** Objects to preserve. */
function staying(objects: readonly KubeObject[]): readonly KubeObject[] {
  return objects.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

function listAll(path: string): readonly KubeObject[] {
  const { items } = machine.read(path) as { readonly items: readonly KubeObject[] };
  return items;
}

/** Waits until every launcher belongs to a preserved VMI: older ones end shortly after their VMs. */
export async function othersHaveLeft(): Promise<void> {
  const haveLeft = (): boolean => {
    const pods = listAll("/api/v1/namespaces/default/pods");
    const vmis = staying(
      listAll("/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"),
    );
    const uids = vmis.map(({ metadata }) => metadata.uid);
    const owners = pods.flatMap(({ metadata }) => metadata.ownerReferences ?? []);
    return staying(pods).length === pods.length && owners.every(({ uid }) => uids.includes(uid));
  };
  await eventually(haveLeft, { withinMs: 2 * CHANGE_MS });
}
