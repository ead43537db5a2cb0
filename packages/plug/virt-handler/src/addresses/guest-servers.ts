// SPDX-License-Identifier: Apache-2.0
// Which DHCP servers run on this node: one at most for each launcher pod.
import { AppError, type ServedNic } from "@patchbay/core";
import type {
  AddressServer,
  AddressServers,
  Clock,
  Logger,
  NetnsHandle,
} from "@patchbay/core/ports";

/** What is to be served, and who is told when that ends by itself. */
export interface Serving {
  readonly netns: NetnsHandle;
  readonly nics: readonly ServedNic[];
  readonly ended: () => void;
}

/** The servers, by the uid of the pod. */
export interface GuestServers {
  /** What is served; undefined: nobody serves. */
  served(podUid: string): readonly ServedNic[] | undefined;
  /**
   * Serves these from now on; for none, nobody does.
   * @throws AppError with PODNET_ADDRESS_SERVER_FAILED
   */
  serve(podUid: string, serving: Serving): Promise<void>;
  stop(podUid: string): Promise<void>;
  stopAll(): Promise<void>;
}

/** One that ends sooner is not started again at once, milliseconds. */
const SHORT_LIFE_MS = 10_000;

interface Entry {
  readonly server: AddressServer;
  readonly nics: readonly ServedNic[];
  readonly sinceMs: number;
}

class NodeGuestServers implements GuestServers {
  readonly #servers: AddressServers;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #entries = new Map<string, Entry>();
  /** Why the last one ended that did not live for long. */
  readonly #ends = new Map<string, string>();

  constructor(servers: AddressServers, clock: Clock, log: Logger) {
    this.#servers = servers;
    this.#clock = clock;
    this.#log = log;
  }

  served(podUid: string): readonly ServedNic[] | undefined {
    return this.#entries.get(podUid)?.nics;
  }

  async serve(podUid: string, { netns, nics, ended }: Serving): Promise<void> {
    const reason = this.#ends.get(podUid);
    this.#ends.delete(podUid);
    if (reason !== undefined) throw new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
    await this.stop(podUid);
    if (nics.length === 0) return;
    const server = await this.#servers.start(netns, nics);
    const entry = { server, nics, sinceMs: this.#clock.monotonicMs() };
    this.#entries.set(podUid, entry);
    void server.ended.then((why) => {
      if (this.#entries.get(podUid) !== entry) return;
      this.#entries.delete(podUid);
      if (this.#clock.monotonicMs() - entry.sinceMs < SHORT_LIFE_MS) this.#ends.set(podUid, why);
      this.#log.warn("the DHCP server of a VM ended", { uid: podUid, reason: why });
      ended();
    });
  }

  async stop(podUid: string): Promise<void> {
    this.#ends.delete(podUid);
    const entry = this.#entries.get(podUid);
    this.#entries.delete(podUid);
    await entry?.server.stop();
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#entries.keys()].map((podUid) => this.stop(podUid)));
  }
}

/** No server runs yet. */
export function createGuestServers(parts: {
  readonly addressServers: AddressServers;
  readonly clock: Clock;
  readonly log: Logger;
}): GuestServers {
  return new NodeGuestServers(parts.addressServers, parts.clock, parts.log);
}
