// SPDX-License-Identifier: Apache-2.0
// Moments at which an upgrade may happen: the services stop, and services of the next version continue.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
} from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { Cluster, type Traffic } from "../faults/memory/cluster.ts";
import { createBetween, NodeInMemory } from "../faults/memory/node-in-memory.ts";
import { begin, nicsBecome, ONE, TWO, type Story } from "../faults/stories.ts";

/** Kinds of the recorded objects. */
export const TYPES: readonly ResourceType<KubeObject>[] = [
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINES,
  VIRTUAL_MACHINE_INSTANCES,
  PODS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
];

export interface Moment extends Pick<Story, "name" | "before" | "act"> {
  /** Action after which every service stops, as `PROCESS CALL`; unset: they stop when nothing is left to do. */
  readonly endsAfter?: string;
  readonly nodes?: 2;
}

const BOTH = [ONE, TWO];
const plug = nicsBecome(BOTH);
const unplug = nicsBecome([ONE, { ...TWO, state: "absent" }]);
const migrate: Story["act"] = (cluster) => cluster.askForMove("to-node2-1");

export const MOMENTS: readonly Moment[] = [
  { name: "running", before: BOTH, act: () => Promise.resolve() },
  { name: "plug-requested", before: [ONE], act: plug, endsAfter: "net-agent writeAtomic" },
  { name: "plug-attached", before: [ONE], act: plug, endsAfter: "net-agent add" },
  { name: "plug-wired", before: [ONE], act: plug, endsAfter: "virt-handler wireTap" },
  { name: "plug-done", before: [ONE], act: plug, endsAfter: "virt-handler attachDevice" },
  { name: "unplug-device", before: BOTH, act: unplug, endsAfter: "virt-handler detachDevice" },
  { name: "unplug-network", before: BOTH, act: unplug, endsAfter: "net-agent del" },
  {
    name: "link-down",
    before: [ONE],
    act: nicsBecome([{ ...ONE, state: "down" }]),
    endsAfter: "virt-handler updateDevice",
  },
  {
    name: "migration-prepared",
    before: BOTH,
    act: migrate,
    endsAfter: "virt-handler on node2 receive",
    nodes: 2,
  },
  {
    name: "migration-arrived",
    before: BOTH,
    act: migrate,
    endsAfter: "virt-handler on node2 resumeDomain",
    nodes: 2,
  },
];

export interface World {
  readonly cluster: Cluster;
  readonly nodes: readonly NodeInMemory[];
}

/** A node as the guest sees it. */
export interface NodeState {
  /** Links of each pod, as `NAME KIND [of MASTER]`. */
  readonly links: readonly (readonly string[])[];
  /** Names of the guests' devices and of their taps. */
  readonly devices: readonly (readonly string[])[];
  /** The agents' files by path: JSON, or text. */
  readonly files: Readonly<Record<string, unknown>>;
}

/** Objects and nodes at a moment. */
export interface State {
  readonly objects: readonly KubeObject[];
  readonly nodes: Readonly<Record<string, NodeState>>;
}

/** The world at the moment; the caller closes the cluster. */
export async function reach(moment: Moment, traffic?: Traffic): Promise<World> {
  const between = createBetween();
  const names = moment.nodes === 2 ? ["node1", "node2"] : ["node1"];
  const nodes = names.map((name) => new NodeInMemory(name, between));
  const cluster = new Cluster(nodes, undefined, traffic);
  await begin(moment, cluster);
  if (moment.endsAfter !== undefined) cluster.endAllAfter(moment.endsAfter);
  cluster.fate.actions.length = 0;
  await moment.act(cluster);
  await cluster.settle();
  if (moment.endsAfter !== undefined && !cluster.fate.actions.includes(moment.endsAfter)) {
    const actions = cluster.fate.actions.join(", ");
    throw new Error(`no process does ${moment.endsAfter} at ${moment.name}, only: ${actions}`);
  }
  cluster.endAll();
  return { cluster, nodes };
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function printText(value: unknown): string {
  return typeof value === "string" ? value : `${JSON.stringify(value)}\n`;
}

interface NodeInventory {
  readonly pods: readonly {
    readonly links: readonly { readonly name: string; readonly kind: string; master?: string }[];
    readonly live?: string;
  }[];
}

async function readNode(node: NodeInMemory): Promise<NodeState> {
  const { pods } = (await node.inventory()) as NodeInventory; // as `inventory` of a fake node builds it
  const files = [...(await node.readFiles())].map(([path, text]) => [path, parseText(text)]);
  return {
    links: pods.map(({ links }) =>
      links.map(
        ({ name, kind, master }) => `${name} ${kind}${master === undefined ? "" : ` of ${master}`}`,
      ),
    ),
    devices: pods.map(({ live = "" }) =>
      [...live.matchAll(/<(?:alias name|target dev)="([^"]*)"/g)].map(([, name = ""]) => name),
    ),
    files: Object.fromEntries(files) as Readonly<Record<string, unknown>>,
  };
}

/** Reads everything that outlives the services. */
export async function readState({ cluster, nodes }: World): Promise<State> {
  const objects = await Promise.all(TYPES.map((type) => cluster.list(type)));
  const states = nodes.map(async (node) => [node.name, await readNode(node)] as const);
  return { objects: objects.flat(), nodes: Object.fromEntries(await Promise.all(states)) };
}

/** Replaces the objects and the agents' files with those of the state. */
export async function applyState({ cluster, nodes }: World, state: State): Promise<void> {
  for (const object of state.objects) {
    const type = TYPES.find(({ kind }) => kind === object.kind);
    if (type !== undefined) cluster.put(type, object);
  }
  for (const node of nodes) {
    const files = Object.entries(state.nodes[node.name]?.files ?? {});
    await node.writeFiles(new Map(files.map(([path, value]) => [path, printText(value)])));
  }
}

/** Members that count writes or tell when they happened. */
const TRANSIENT = /^(?:resourceVersion|generation|observedGeneration)$/;

/** The paths and values of a JSON value's leaves, without transient members. */
export function leavesOf(value: unknown, path = ""): ReadonlyMap<string, unknown> {
  const members: (readonly [string, unknown])[] = Array.isArray(value)
    ? value.map((entry: unknown, index) => [String(index), entry])
    : Object.entries(isJsonObject(value) ? value : {});
  if (members.length === 0) return new Map([[path, value]]);
  return new Map(
    members
      .filter(([name]) => !TRANSIENT.test(name))
      .flatMap(([name, member]) => [...leavesOf(member, `${path}/${name}`)]),
  );
}
