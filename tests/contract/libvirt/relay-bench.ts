// SPDX-License-Identifier: Apache-2.0
// The relays of two nodes of a migration with the directories of two launchers and an authority.
import { closeSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { createClock } from "@patchbay/os";
import type { ChildProgram } from "@patchbay/core/interfaces";
import { createAuthority, issueCertificate, type Authority } from "@patchbay/pki";
import {
  startRelay,
  type Relay,
  type RelayIdentity,
  type RelayOptions,
} from "@patchbay/virt-handler/testing";
import { createBuiltChildStarter, openInode } from "@patchbay/support";
import { LAUNCHER, makeOwnDirectory } from "./session.ts";

export const MIGRATION = "7d6f3a0e-1111-2222-3333-444455556666";
export const [SOURCE, TARGET] = ["node-1", "node-2"];

export const SOCKETS = { memory: "migration-memory.sock", disks: "migration-disks.sock" };
export const PEER_SOCKET = "migration-peer.sock";
export const LIBVIRT_SOCKET = "libvirt/libvirt-sock";

const LISTEN_ADDRESS = "127.0.0.1";

export type Change = Partial<Pick<RelayOptions, "idleTimeoutMs" | "greetingMs" | "connections">>;

export class RelayBench {
  readonly directory: string;
  readonly sourceDirectory: string;
  readonly targetDirectory: string;
  readonly #authority: Authority;
  readonly #descriptors: number[] = [];
  readonly #relays: Relay[] = [];
  /** Pids of the relays in start order. */
  readonly pids: number[] = [];

  private constructor(authority: Authority) {
    this.#authority = authority;
    this.directory = makeOwnDirectory(mkdtempSync(join(tmpdir(), "relay-")));
    this.sourceDirectory = makeOwnDirectory(join(this.directory, "s"));
    this.targetDirectory = makeOwnDirectory(join(this.directory, "t"));
  }

  static async make(): Promise<RelayBench> {
    return new RelayBench(await createAuthority("patchbay-test", createClock()));
  }

  /** The certificate of a node or of another client of the same authority. */
  async identityOf(
    commonName: string,
    organizations: readonly string[] = [names.RELAY_GROUP],
  ): Promise<RelayIdentity> {
    const { certPem, keyPem } = await issueCertificate(this.#authority, {
      commonName,
      organizations,
      dnsNames: [],
      ipAddresses: [],
      usages: ["server", "client"],
      validDays: 1,
    });
    return { certPem, keyPem, authorityPem: this.#authority.certPem };
  }

  async #order(node: string, peerNode: string, change: Change): Promise<RelayOptions> {
    return {
      migrationUid: MIGRATION,
      peerNode,
      identity: await this.identityOf(node),
      connections: { libvirt: 1, memory: 1 },
      idleTimeoutMs: 60_000,
      greetingMs: 10_000,
      sockets: { ...SOCKETS, libvirt: node === SOURCE ? PEER_SOCKET : LIBVIRT_SOCKET },
      ...change,
    };
  }

  async #start(order: Parameters<typeof startRelay>[0], directory: string): Promise<Relay> {
    const fd = openInode(directory);
    this.#descriptors.push(fd);
    const children = createBuiltChildStarter();
    const starter = {
      start: async (program: ChildProgram) => {
        const child = await children.start(program);
        this.pids.push(child.pid);
        return child;
      },
    };
    const relay = await startRelay(order, fd, { starter, user: LAUNCHER });
    this.#relays.push(relay);
    return relay;
  }

  /** The target node's relay. */
  async receive(change: Change = {}): Promise<Relay> {
    const order = await this.#order(TARGET, SOURCE, change);
    const wanted = { kind: "receive", order, listenAddress: LISTEN_ADDRESS } as const;
    return this.#start(wanted, this.targetDirectory);
  }

  /** The source node's relay. */
  async send({ ports }: Pick<Relay, "ports">, change: Change = {}): Promise<Relay> {
    const order = await this.#order(SOURCE, TARGET, change);
    const wanted = { kind: "send", order, address: LISTEN_ADDRESS, ports } as const;
    return this.#start(wanted, this.sourceDirectory);
  }

  async close(): Promise<void> {
    for (const relay of this.#relays) relay.close();
    await Promise.all(this.#relays.map(({ ended }) => ended));
    this.#descriptors.forEach(closeSync);
    rmSync(this.directory, { recursive: true, force: true });
  }
}
