// SPDX-License-Identifier: Apache-2.0
// This machine as a node: made when it is not there, its status kept true.
import { apiVersionOf, names, NODES, type Condition, type KubeNode } from "@patchbay/api";
import { isAppError, isEqual } from "@patchbay/core";
import { printTime } from "@patchbay/kube";
import type { Clock, Files, ProcessRunner, Store } from "@patchbay/ports";
import { runProgram } from "./run-program.ts";

/** Source: Kubernetes kubelet, maxPods. */
const PODS_MAX = "110";
/** How many VMs may have a device; as KubeVirt's device plugin. */
const DEVICES_MAX = "1000";

const DEVICES: readonly (readonly [resource: string, device: string])[] = [
  [names.KVM_RESOURCE, "/dev/kvm"],
  [names.TUN_RESOURCE, "/dev/net/tun"],
];

/** What registering a node needs. */
export interface NodeDeps {
  readonly store: Store;
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly clock: Clock;
}

interface IpAddress {
  readonly addr_info?: readonly { readonly local?: string; readonly scope?: string }[];
}

/** The first global IPv4 address of the machine; the loopback's where there is none. */
export async function readHostIp(runner: ProcessRunner): Promise<string> {
  const text = await runProgram(runner, "ip", "-j", "-4", "addr", "show", "up");
  // Source: iproute2 `ip -j addr`
  const links = JSON.parse(text === "" ? "[]" : text) as readonly IpAddress[];
  const addresses = links.flatMap((link) => link.addr_info ?? []);
  return addresses.find(({ scope }) => scope === "global")?.local ?? "127.0.0.1";
}

async function readResources(files: Files): Promise<Readonly<Record<string, string>>> {
  const cpus = (await files.readText("/proc/cpuinfo"))?.match(/^processor\s*:/gm)?.length ?? 1;
  const memory = /^MemTotal:\s*(\d+) kB$/m.exec((await files.readText("/proc/meminfo")) ?? "");
  const resources: Record<string, string> = {
    cpu: String(cpus),
    memory: `${memory?.[1] ?? "0"}Ki`,
    pods: PODS_MAX,
  };
  for (const [resource, device] of DEVICES) {
    if (await files.exists(device)) resources[resource] = DEVICES_MAX;
  }
  return resources;
}

function readyCondition(before: KubeNode | undefined, now: string): Condition {
  const earlier = before?.status?.conditions?.find(({ type }) => type === "Ready");
  const isSame = earlier?.status === "True" && earlier.lastTransitionTime !== undefined;
  return {
    type: "Ready",
    status: "True",
    reason: "NodeRuntimeReady",
    message: "the node runtime is ready",
    lastTransitionTime: isSame ? earlier.lastTransitionTime : now,
  };
}

async function ensureNode(store: Store, name: string): Promise<KubeNode> {
  const node: KubeNode = {
    apiVersion: apiVersionOf(NODES),
    kind: NODES.kind,
    metadata: {
      name,
      labels: { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" },
    },
  };
  try {
    return (await store.find(NODES, { name })) ?? (await store.create(NODES, node));
  } catch (error) {
    const there = isAppError(error, "KUBE_ALREADY_EXISTS") && (await store.find(NODES, { name }));
    if (there === false || there === undefined) throw error;
    return there;
  }
}

/** Makes the node and writes its status where it differs; labels that somebody has set stay. */
export async function registerNode(deps: NodeDeps, name: string, hostIp: string): Promise<void> {
  const node = await ensureNode(deps.store, name);
  const resources = await readResources(deps.files);
  const status = {
    capacity: resources,
    allocatable: resources,
    conditions: [readyCondition(node, printTime(deps.clock.now()))],
    addresses: [
      { type: "InternalIP", address: hostIp },
      { type: "Hostname", address: name },
    ],
  };
  if (isEqual({ ...node.status, ...status }, node.status ?? {})) return;
  const patch = { type: "merge", fields: { status } } as const;
  await deps.store.patch(NODES, { name }, patch, { subresource: "status" });
}
