// SPDX-License-Identifier: Apache-2.0
// In-memory relays. The two ends of a migration find each other by port.
import { AppError } from "@patchbay/base";
import type { RelayEndpoint, RelayRequest, Relays, Relay } from "../relays/relays.ts";
import type { Ports, RelayMessage } from "../relays/protocol.ts";

class FakeRelay implements Relay {
  readonly ports: Ports;
  readonly #end = Promise.withResolvers<string>();
  readonly #listeners = new Set<(message: RelayMessage) => void>();
  readonly #onReportGone: (() => void) | undefined;
  isOpen = true;

  /** @param onReportGone - called when the source reports that the guest has left; undefined for a receiver */
  constructor(ports: Ports, onReportGone?: () => void) {
    this.ports = ports;
    this.#onReportGone = onReportGone;
  }

  get isReceiver(): boolean {
    return this.#onReportGone === undefined;
  }

  get ended(): Promise<string> {
    return this.#end.promise;
  }

  onMessage(listener: (message: RelayMessage) => void): void {
    this.#listeners.add(listener);
  }

  send(message: RelayMessage): void {
    for (const listener of this.#listeners) listener(message);
  }

  reportGone(): Promise<void> {
    return new Promise((resolve) => {
      this.#onReportGone?.();
      resolve();
    });
  }

  close(): void {
    this.isOpen = false;
    this.#end.resolve("closed");
  }
}

export interface FakeRelays extends Relays {
  readonly openCount: number;
  /** Ends all relays, as if their processes were killed. */
  kill(): void;
}

class MemoryRelays implements FakeRelays {
  readonly address = "192.0.2.1";
  readonly #relays: FakeRelay[] = [];
  #lastPort = 40_000;

  get openCount(): number {
    return this.#relays.filter(({ isOpen }) => isOpen).length;
  }

  kill(): void {
    for (const relay of this.#relays) relay.close();
  }

  receive(): Promise<Relay> {
    this.#lastPort += 2;
    const ports = { libvirt: this.#lastPort, memory: this.#lastPort + 1 };
    return this.#add(new FakeRelay(ports));
  }

  send(_request: RelayRequest, to: RelayEndpoint): Promise<Relay> {
    const onReportGone = (): void => {
      const peer = this.#relays.find(
        ({ isOpen, isReceiver, ports }) =>
          isOpen && isReceiver && ports.libvirt === to.ports.libvirt,
      );
      if (peer === undefined) throw new AppError("RELAY_FAILED", { reason: "nobody listens" });
      peer.send({ kind: "gone" });
    };
    return this.#add(new FakeRelay(to.ports, onReportGone));
  }

  #add(relay: FakeRelay): Promise<Relay> {
    this.#relays.push(relay);
    return Promise.resolve(relay);
  }
}

/** Creates relays, which both nodes may share. */
export function createFakeRelays(): FakeRelays {
  return new MemoryRelays();
}
