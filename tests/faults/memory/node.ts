// SPDX-License-Identifier: Apache-2.0
// A node of the fault tests: ports for the agents, operations for the kubelet, and its state.
import type {
  AddressServers,
  Cni,
  DefaultRoutes,
  Files,
  Hypervisor,
  LauncherPod,
  Launchers,
  FrameWatch,
  LinkWatch,
  Namespaces,
  NodeNics,
  PodNetwork,
  Sandboxes,
  VhostSockets,
} from "@patchbay/core/interfaces";
import type { Relays } from "../../../packages/control-plane/virt-handler/src/relays/relays.ts";
import type { Life } from "../life.ts";

/** The only node of a single-node cluster. */
export const NODE = "node1";

/** Pod operations on the node. */
export interface PodHands {
  /** The sandbox exists with the pod network's NIC, and the launcher listens. */
  start(pod: LauncherPod): Promise<void>;
  /** Its processes are killed; the sandbox stays. */
  end(podUid: string): Promise<void>;
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
  readonly frameWatch: FrameWatch;
  readonly linkWatch: LinkWatch;
  readonly vhostSockets: VhostSockets;
  readonly hypervisor: Hypervisor;
  readonly addressServers: AddressServers;
  readonly relays: Relays;
  /** Directories of the agents' persistent files. */
  readonly stateDir: string;
}

/** A node with its kubelet operations and its state. */
export interface TestNode extends PodHands {
  readonly name: string;
  /** For one life of one agent, whose actions are counted. */
  groundFor(life: Life): Ground;
  networkConfig(name: string): Readonly<Record<string, unknown>>;
  /** The node's whole state in a deterministic form. */
  inventory(): Promise<unknown>;
  close(): Promise<void>;
}
