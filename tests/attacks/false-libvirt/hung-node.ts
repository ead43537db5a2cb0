// SPDX-License-Identifier: Apache-2.0
// A node's loop over launchers with the real queue, sessions, back-off and libvirt child, and false daemons.
import { after, createQueue, done, runReconciler, type Next, type Queue } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import type { HypervisorAddress, LauncherPod, Launchers } from "@patchbay/core/interfaces";
import { createFakeLinkWatch } from "@patchbay/podnet/testing";
import { createSessions, withBackoff, DEFAULT_CONCURRENCY } from "@patchbay/virt-handler/testing";
import { AttackedNode } from "./false-libvirt.ts";
import { createFakeVhostSockets } from "@patchbay/os/testing";

/** The domain of each false daemon. */
const DOMAIN = "default_vm1";

function podOf(name: string): LauncherPod {
  return { uid: name, namespace: "default", name };
}

/** Reads the domain of each launcher whose key, its name, is added. */
export class NodeLoop {
  readonly node = new AttackedNode();
  readonly queue: Queue;
  readonly #sockets = new Map<string, number>();
  readonly #seen = new Map<string, () => void>();
  /** Number of passes that ended, also by an error. */
  #ended = 0;
  readonly #stop = new AbortController();
  readonly #loopEnded: Promise<void>;

  constructor() {
    const clock = createClock();
    const { hypervisor, log } = this.node;
    const sessions = withBackoff(
      createSessions({
        launchers: this.#launchers(),
        linkWatch: createFakeLinkWatch(),
        vhostSockets: createFakeVhostSockets(),
        hypervisor,
        log,
      }),
      clock,
    );
    this.queue = createQueue({ clock, concurrency: DEFAULT_CONCURRENCY });
    const reconcile = async (key: string): Promise<Next> => {
      const wake = (): void => {
        this.queue.add(key);
      };
      const pod = podOf(key);
      const pauseMs = sessions.backoffMs(pod);
      if (pauseMs > 0) return after(pauseMs);
      try {
        await sessions.use(pod, { wake, onEvent: () => undefined }, async ({ connection }) => {
          await connection.findDomain(DOMAIN);
          await connection.readDomainXml(DOMAIN, "live");
        });
        this.#seen.get(key)?.();
      } finally {
        this.#ended += 1;
      }
      return done();
    };
    const reconciler = { name: "vmi", queue: this.queue, reconcile, log, clock };
    this.#loopEnded = runReconciler(reconciler, this.#stop.signal);
  }

  async addLauncher(name: string, behaviour: string): Promise<void> {
    this.#add(name, await this.node.daemons.start(behaviour));
  }

  /** Launchers that accept connections and never answer; their names are numbers. */
  async addSilentLaunchers(count: number): Promise<void> {
    const addresses = await this.node.daemons.startSilent(count);
    for (const [index, address] of addresses.entries())
      this.#add(`silent-${String(index)}`, address);
  }

  #add(name: string, address: HypervisorAddress): void {
    if (address.kind === "socket") this.#sockets.set(name, address.fd);
    this.queue.add(name);
  }

  /** Wakes one launcher's key; returns how many other passes ended before its own. */
  async passOver(name: string): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const before = this.#ended;
    let count = 0;
    this.#seen.set(name, () => {
      count = this.#ended - before;
      resolve(undefined);
    });
    this.queue.add(name);
    await promise;
    return count;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error("the test ends"));
    await this.node.close(); // hung daemons fail
    await this.#loopEnded;
  }

  #launchers(): Launchers {
    return {
      open: ({ name }) =>
        Promise.resolve({
          socketFd: this.#sockets.get(name) ?? -1,
          directoryFd: -1,
          netns: { fd: -1, inode: "" },
          ended: new Promise<void>(() => undefined),
          close: () => undefined,
        }),
      watch: () => undefined,
    };
  }
}
