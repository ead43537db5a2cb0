// SPDX-License-Identifier: Apache-2.0
// The relays that this node starts: with its own certificate, at its own address, for the sockets of one of its launchers.
import { names, type MigrationState } from "@patchbay/api";
import type { ReadIdentity } from "./own-identity.ts";
import { startRelay, type Relay, type RelayDeps } from "./relays.ts";
import type { Channel, Ports, RelayOrder } from "./words.ts";

/** The sockets of a migration in a launcher's directory: at the source the relay's own, at the target its QEMU's. */
export const SOCKETS = {
  peer: "migration-peer.sock",
  memory: "migration-memory.sock",
  disks: "migration-disks.sock",
} as const;

/** How long whoever connects may take to say who it is, milliseconds. */
const GREETING_MS = 10_000;

/** What a relay is for. */
export interface RelayRequest {
  readonly migration: MigrationState;
  /** How many disks are copied along. */
  readonly disks: number;
  /** For so long nothing may come or go where the guest's memory goes, milliseconds. */
  readonly silenceMs: number;
  /** The directory of the launcher's sockets; may be closed afterwards. */
  readonly directoryFd: number;
}

/** Where another node's relay listens. */
export interface RelayPlace {
  readonly address: string;
  readonly ports: Ports;
}

/** Starts relays. All throw AppError with RELAY_FAILED, OS_FILE_FAILED, OS_PROGRAM_FAILED, OS_TIMED_OUT. */
export interface Relays {
  /** Where those listen that this node starts. */
  readonly address: string;
  /** Of the node that a guest comes to. */
  receive(request: RelayRequest): Promise<Relay>;
  /** Of the node that it leaves. */
  send(request: RelayRequest, to: RelayPlace): Promise<Relay>;
}

/** What they are started with. */
export interface OwnRelaysOptions extends RelayDeps {
  readonly identity: ReadIdentity;
  readonly address: string;
}

class OwnRelays implements Relays {
  readonly address: string;
  readonly #options: OwnRelaysOptions;

  constructor(options: OwnRelaysOptions) {
    this.address = options.address;
    this.#options = options;
  }

  async receive(request: RelayRequest): Promise<Relay> {
    const peer = { node: request.migration.sourceNode ?? "", socket: names.LIBVIRT_SOCKET };
    const order = await this.#order(request, peer);
    const wanted = { kind: "receive", order, listenAddress: this.address } as const;
    return startRelay(wanted, request.directoryFd, this.#options);
  }

  async send(request: RelayRequest, to: RelayPlace): Promise<Relay> {
    const peer = { node: request.migration.targetNode ?? "", socket: SOCKETS.peer };
    const order = await this.#order(request, peer);
    return startRelay({ kind: "send", order, ...to }, request.directoryFd, this.#options);
  }

  async #order(
    { migration, disks, silenceMs }: RelayRequest,
    { node, socket }: { readonly node: string; readonly socket: string },
  ): Promise<RelayOrder> {
    const sockets: RelayOrder["sockets"] = { ...SOCKETS, libvirt: socket };
    const connections: Partial<Record<Channel, number>> = { libvirt: 1, memory: 1, disks };
    const { migrationUid = "" } = migration;
    const identity = await this.#options.identity();
    return {
      migrationUid,
      identity,
      peerNode: node,
      connections,
      sockets,
      silenceMs,
      greetingMs: GREETING_MS,
    };
  }
}

/** The relays of this node. */
export function createRelays(options: OwnRelaysOptions): Relays {
  return new OwnRelays(options);
}
