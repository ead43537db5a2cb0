// SPDX-License-Identifier: Apache-2.0
// What a node is to the cluster of the fault tests: ports for the agents, hands for the kubelet, and a view of it.
import type {
  AddressServers,
  Cni,
  DefaultRoutes,
  Files,
  Hypervisor,
  LauncherPod,
  Launchers,
  LinkWatch,
  Namespaces,
  NodeNics,
  PodNetwork,
  Sandboxes,
  VhostSockets,
} from "@patchbay/core/interfaces";
import type { Relays } from "../../../packages/control-plane/virt-handler/src/relays/relays.ts";
import type { Life } from "../life.ts";

/** Where everything runs, where there is one node. */
export const NODE = "node1";

/** What becomes of pods on the node. */
export interface PodHands {
  /** The sandbox is there, with the NIC of the pod network, and the launcher listens. */
  start(pod: LauncherPod): Promise<void>;
  /** Its processes are ended; the sandbox stays. */
  end(podUid: string): Promise<void>;
  /** The sandbox goes. */
  remove(podUid: string): Promise<void>;
}

/** One node as its agents see it. */
export interface Ground {
  readonly files: Files;
  readonly podNetwork: PodNetwork;
  readonly defaultRoutes: DefaultRoutes;
  readonly nodeNics: NodeNics;
  readonly cni: Cni;
  readonly namespaces: Namespaces;
  readonly sandboxes: Sandboxes;
  readonly launchers: Launchers;
  readonly linkWatch: LinkWatch;
  readonly vhostSockets: VhostSockets;
  readonly hypervisor: Hypervisor;
  readonly addressServers: AddressServers;
  readonly relays: Relays;
  /** Where agents keep what outlives them. */
  readonly stateDir: string;
}

/** A node, the kubelet's hands on it, and what is there. */
export interface TestNode extends PodHands {
  readonly name: string;
  /** For one life of one agent, whose actions are counted. */
  groundFor(life: Life): Ground;
  /** Configuration of a network for CNI. */
  networkConfig(name: string): Readonly<Record<string, unknown>>;
  /** All that is on the node, in words that are the same each time. */
  inventory(): Promise<unknown>;
  close(): Promise<void>;
}
