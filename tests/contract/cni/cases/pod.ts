// SPDX-License-Identifier: Apache-2.0
// Rows about a pod: its annotation, its status, and its attachments.
import {
  parseNetworks,
  type NetworkSelection,
  type NetworkStatus,
  type NetworksAnnotation,
} from "@patchbay/api/annotations";
import { buildNetworkStatuses } from "@patchbay/cni";
import { AppError } from "@patchbay/base";
import {
  mergeNetworkStatus,
  planAttachmentActions,
  type OwnedAttachment,
  type ReportedAttachment,
} from "@patchbay/core/nics";
import { parseResult } from "../../../../packages/adapters/cni/src/formats.ts";
import { World } from "../../../../packages/control-plane/net-agent/src/testing/world.ts";
import type { Fields, Judge } from "./rows.ts";

const parseAnnotation: Judge = ({ input }) => {
  const parsed = parseNetworks(input["annotation"] as string);
  if (!parsed.ok) return { reject: true };
  return { accept: parsed.elements.map((element) => withDefaults(element, input)) };
};

/** In the peers' form: with the pod's namespace, and the current name of `interface`. */
function withDefaults(element: NetworkSelection, input: Fields): object {
  const { interfaceRequest, ...rest } = element;
  return {
    namespace: input["podNamespace"],
    ...(interfaceRequest === undefined ? {} : { interface: interfaceRequest }),
    ...rest,
  };
}

type Owned = OwnedAttachment;

function plan(
  networks: NetworksAnnotation,
  owned: readonly Owned[],
  foreign: readonly NetworkStatus[],
): ReturnType<typeof planAttachmentActions<Owned>> {
  return planAttachmentActions({
    namespace: "ns1",
    networks,
    isHostNetwork: false,
    owned,
    mode: "multus",
    podState: "alive",
    foreign: foreign.flatMap(({ name: network, interface: interfaceName }) =>
      interfaceName === undefined ? [] : [{ network, interfaceName }],
    ),
  });
}

const nameInterfaces: Judge = ({ input }) => {
  const elements = input["elements"] as readonly NetworkSelection[];
  const names = plan({ ok: true, elements }, [], []).flatMap((action) => {
    if (action.kind === "add") return [action.wanted.interfaceName];
    return action.kind === "reportError" ? [action.interfaceName] : [];
  });
  return { podInterfaces: ["eth0", ...names] };
};

/** Ours are the entries that the annotation once requested; the others belong to the cluster. */
const isClusters = (entry: NetworkStatus): boolean =>
  entry.default === true || !entry.name.includes("/") || entry.name.startsWith("kube-system/");

const diff: Judge = ({ input }) => {
  const elements = input["selection"] as readonly NetworkSelection[];
  const status = input["status"] as readonly NetworkStatus[];
  const owned = status
    .filter((entry) => !isClusters(entry))
    .map(({ name: network, interface: interfaceName = "" }): Owned => ({
      network,
      interfaceName,
      state: "attached",
      isStale: false,
      isAdopted: true,
    }));
  const actions = plan({ ok: true, elements }, owned, status.filter(isClusters));
  return {
    add: actions.flatMap((action) =>
      action.kind === "add" ? [`${action.wanted.network}/${action.wanted.interfaceName}`] : [],
    ),
    del: actions.flatMap((action) => {
      if (action.kind !== "del") return [];
      const [namespace, name] = action.owned.network.split("/");
      return [{ namespace, name, interface: action.owned.interfaceName }];
    }),
  };
};

const reportStatus: Judge = ({ input, expected }) => {
  const { networkName, result } = input;
  const [first] = expected["entries"] as readonly NetworkStatus[];
  const parsed = parseResult(JSON.stringify(result), "1.0.0");
  if (parsed === undefined) return { entries: undefined };
  // The row omits the requested name, which is the first entry's.
  const isAuxiliary = first?.interface === "example1";
  const requested = isAuxiliary ? "example0" : (first?.interface ?? "net1");
  return { entries: buildNetworkStatuses(parsed, networkName as string, requested) };
};

const updateStatus: Judge = ({ input }) => {
  const removed = (input["removeKeys"] as readonly string[]).map((key): ReportedAttachment => {
    const interfaceName = key.split("/")[2] ?? "";
    return { interfaceName, state: "removed", isStale: false, isAdopted: false, entries: [] };
  });
  return { status: mergeNetworkStatus(input["status"] as NetworkStatus[], removed) };
};

const failure = (command: string): AppError =>
  new AppError("CNI_PLUGIN_FAILED", { plugin: "p", command, message: "no" });

async function worldOf(networks: string, more: object = {}): Promise<World> {
  const world = new World();
  world.putNads("a", "b");
  await world.putPod({ networks, ...more });
  return world;
}

function eventsOf(world: World): readonly string[] {
  return world.notes.map(({ reason, about = "" }) => `${reason} ${about}`.trim());
}

async function statusOf(world: World): Promise<readonly (string | undefined)[]> {
  return (await world.networkStatus()).map((entry) => entry.interface);
}

const onHostNetwork: Judge = async () => {
  const world = await worldOf("a,b", { hostNetwork: true });
  await world.pass();
  const events = world.notes.map(({ type, reason }) => `${type} ${reason}`);
  return { add: world.cni.attachments, del: [], events };
};

const secondAddFails: Judge = async () => {
  const world = await worldOf("a@net1,none@net2");
  await world.pass();
  // The row's second network has a name of 16 characters, which no link can have.
  const events = eventsOf(world).map((event) => event.replace("net2", "net-non-existing"));
  return { events, statusGains: await statusOf(world) };
};

const firstDelFails: Judge = async () => {
  const world = await worldOf("a@net0,b@net1");
  await world.pass();
  const before = world.notes.length;
  await world.putPod({ networks: "" });
  world.cni.failNext("del", failure("DEL"));
  await world.pass();
  const statusChanged = (await statusOf(world)).join(" ") === "net1";
  return { events: eventsOf(world).slice(before), statusChanged };
};

const retryBudget: Judge = async ({ input }) => {
  const world = await worldOf("a");
  const attempts = (): number => world.cni.calls.filter((call) => call.startsWith("ADD")).length;
  const failures = input["consecutiveFailures"] as number;
  for (let done = 0; done < failures; done += 1) {
    world.cni.failNext("add", failure("ADD"));
    await world.continuePass();
    world.nowMs += 60_000;
  }
  const tried = attempts();
  await world.continuePass();
  return { attempts: tried, then: attempts() > tried ? "tried again" : "dropped" };
};

/** Keyed by area. */
export const POD_AREAS: Readonly<Record<string, Judge>> = {
  "annotation-parse": parseAnnotation,
  "ifname-default": nameInterfaces,
  "status-form": reportStatus,
  "status-update": updateStatus,
  "reconcile-diff": diff,
};

/** Keyed by the row's name. */
export const POD_ROWS: Readonly<Record<string, Judge>> = {
  "host-network pod with annotation": onHostNetwork,
  "second ADD fails after a good first": secondAddFails,
  "DEL fails first, later DEL not attempted": firstDelFails,
  "retry budget": retryBudget,
};
