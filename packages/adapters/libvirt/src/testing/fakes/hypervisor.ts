// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type {
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
} from "@patchbay/core/interfaces";
import { MemoryConnection } from "./hypervisor-connection.ts";
import { MemoryDaemon, type FakeDaemon } from "./hypervisor-daemon.ts";

/** A {@link Hypervisor} in memory, with daemons by address. */
export interface FakeHypervisor extends Hypervisor {
  /** Returns the daemon at an address, which is created on demand. Opening an address without a daemon fails. */
  daemonAt(address: HypervisorAddress): FakeDaemon;
  /** Makes a daemon reachable from others under a {@link Migration.peerUri}. */
  leadTo(peerUri: string, address: HypervisorAddress): void;
}

export function createFakeHypervisor(): FakeHypervisor {
  return new MemoryHypervisor();
}

class MemoryHypervisor implements FakeHypervisor {
  readonly #daemons = new Map<string, MemoryDaemon>();
  readonly #peers = new Map<string, HypervisorAddress>();

  daemonAt(address: HypervisorAddress): MemoryDaemon {
    const key = toKey(address);
    const daemon = this.#daemons.get(key) ?? new MemoryDaemon((uri) => this.#findPeer(uri));
    this.#daemons.set(key, daemon);
    return daemon;
  }

  leadTo(peerUri: string, address: HypervisorAddress): void {
    this.#peers.set(peerUri, address);
  }

  #findPeer(peerUri: string): MemoryDaemon | undefined {
    const address = this.#peers.get(peerUri);
    const daemon = address && this.#daemons.get(toKey(address));
    return daemon?.isRunning === true ? daemon : undefined;
  }

  async open(address: HypervisorAddress): Promise<HypervisorConnection> {
    await Promise.resolve();
    const daemon = this.#daemons.get(toKey(address));
    if (daemon?.isRunning !== true) {
      throw new AppError("LIBVIRT_UNREACHABLE", { message: `nobody listens at ${toKey(address)}` });
    }
    const connection = new MemoryConnection(daemon);
    daemon.connections.add(connection);
    return connection;
  }

  async close(): Promise<void> {
    await Promise.resolve();
    for (const daemon of this.#daemons.values()) daemon.dropConnections("closed");
  }
}

function toKey(address: HypervisorAddress): string {
  return address.kind === "uri" ? address.uri : `descriptor ${String(address.fd)}`;
}
