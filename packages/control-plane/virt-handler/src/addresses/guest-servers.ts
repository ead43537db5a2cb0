// SPDX-License-Identifier: Apache-2.0
// DHCP servers on this node, at most one for each NIC of a launcher pod.
import { AppError, type Clock, type Logger } from "@patchbay/base";
import type { ServedNic } from "@patchbay/core/nics";
import type { AddressServer, AddressServers, NetnsHandle } from "@patchbay/core/interfaces";

export interface ServerRequest {
  readonly netns: NetnsHandle;
  readonly nic: ServedNic;
  readonly onEnd: () => void;
}

export interface GuestServers {
  listServed(podUid: string): readonly ServedNic[];
  /** Starts a DHCP server on the NIC's bridge, and stops the previous server. @throws AppError with PODNET_ADDRESS_SERVER_FAILED */
  serve(podUid: string, request: ServerRequest): Promise<void>;
  stopOnBridge(podUid: string, bridgeName: string): Promise<void>;
  stop(podUid: string): Promise<void>;
  stopAll(): Promise<void>;
}

/** Run time below which the end of a server counts as a failed start, in milliseconds. */
const EARLY_END_MS = 10_000;

interface RunningServer {
  readonly server: AddressServer;
  readonly nic: ServedNic;
  readonly sinceMs: number;
}

interface PodServers {
  readonly entries: Map<string, RunningServer>;
  readonly endReasons: Map<string, string>;
}

class NodeGuestServers implements GuestServers {
  readonly #servers: AddressServers;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #pods = new Map<string, PodServers>();

  constructor(servers: AddressServers, clock: Clock, log: Logger) {
    this.#servers = servers;
    this.#clock = clock;
    this.#log = log;
  }

  listServed(podUid: string): readonly ServedNic[] {
    return [...(this.#pods.get(podUid)?.entries.values() ?? [])].map(({ nic }) => nic);
  }

  async serve(podUid: string, { netns, nic, onEnd }: ServerRequest): Promise<void> {
    const pod = this.#ensurePod(podUid);
    const { entries, endReasons } = pod;
    const { bridgeName } = nic;
    const reason = endReasons.get(bridgeName);
    endReasons.delete(bridgeName);
    if (reason !== undefined) throw new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
    await this.stopOnBridge(podUid, bridgeName);
    const server = await this.#servers.start(netns, nic);
    if (this.#pods.get(podUid) !== pod) {
      // `stop` was called for the pod while the server started.
      await server.stop();
      return;
    }
    const entry = { server, nic, sinceMs: this.#clock.monotonicMs() };
    entries.set(bridgeName, entry);
    void server.ended.then((endReason) => {
      if (entries.get(bridgeName) !== entry) return;
      entries.delete(bridgeName);
      if (this.#clock.monotonicMs() - entry.sinceMs < EARLY_END_MS)
        endReasons.set(bridgeName, endReason);
      this.#log.warn("the DHCP server of a NIC ended", {
        uid: podUid,
        bridgeName,
        reason: endReason,
      });
      onEnd();
    });
  }

  async stopOnBridge(podUid: string, bridgeName: string): Promise<void> {
    const pod = this.#pods.get(podUid);
    const entry = pod?.entries.get(bridgeName);
    pod?.endReasons.delete(bridgeName);
    pod?.entries.delete(bridgeName);
    await entry?.server.stop();
  }

  async stop(podUid: string): Promise<void> {
    const bridges = [...(this.#pods.get(podUid)?.entries.keys() ?? [])];
    await Promise.all(bridges.map((bridgeName) => this.stopOnBridge(podUid, bridgeName)));
    this.#pods.delete(podUid);
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#pods.keys()].map((podUid) => this.stop(podUid)));
  }

  #ensurePod(podUid: string): PodServers {
    const existing = this.#pods.get(podUid);
    if (existing !== undefined) return existing;
    const pod: PodServers = { entries: new Map(), endReasons: new Map() };
    this.#pods.set(podUid, pod);
    return pod;
  }
}

export function createGuestServers(parts: {
  readonly addressServers: AddressServers;
  readonly clock: Clock;
  readonly log: Logger;
}): GuestServers {
  return new NodeGuestServers(parts.addressServers, parts.clock, parts.log);
}
