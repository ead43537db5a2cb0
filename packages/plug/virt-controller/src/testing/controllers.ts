// SPDX-License-Identifier: Apache-2.0
// Runs virt-controller in process against a test's API server, if wanted with a cache that falls behind.
import { AppError } from "@patchbay/core";
import type { KubeClient, Reflection } from "@patchbay/kube";
import type { KubeObject } from "@patchbay/api";
import { DaemonHealth } from "@patchbay/daemon/testing";
import type { Clock } from "@patchbay/core/ports";
import { noteCalls } from "@patchbay/kube/testing";
import type { TestServer } from "@patchbay/support/api-server";
import { createMetrics } from "@patchbay/telemetry";
import { runController } from "../compose.ts";

const ACCOUNT = "system:serviceaccount:patchbay:virt-controller";

/** One virt-controller that runs. */
export interface Controller {
  /** What it has asked of the server so far: verb and resource of each call. */
  readonly calls: readonly string[];
  /** What it counts, in Prometheus' text format. */
  metrics(): Promise<string>;
  /** Its watch of this kind (plural name) tells it nothing more until it is thawed. */
  freeze(resource: string): void;
  /** The oldest word that was held back is told. */
  tellOne(): void;
  /** Everything that was held back is told, in order. */
  thaw(): void;
  /** From now on the server refuses to make objects of this kind (plural name) for that reason; undefined: no more. */
  refuse(resource: string, message: string | undefined): void;
  /** How often the server has refused something. */
  refusals(): number;
  stop(): Promise<void>;
}

/** What a policy of the cluster keeps virt-controller from making. */
class Policy {
  readonly #refused = new Map<string, string>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  refuse(resource: string, message: string | undefined): void {
    if (message === undefined) this.#refused.delete(resource);
    else this.#refused.set(resource, message);
  }

  wrap(client: KubeClient): KubeClient {
    const { store } = client;
    const create: typeof store.create = (type, object, options) => {
      const message = this.#refused.get(type.resource);
      if (message === undefined) return store.create(type, object, options);
      this.#count += 1;
      return Promise.reject(new AppError("KUBE_FORBIDDEN", { message }));
    };
    const bound: typeof store = {
      find: (...call) => store.find(...call),
      list: (...call) => store.list(...call),
      update: (...call) => store.update(...call),
      patch: (...call) => store.patch(...call),
      delete: (...call) => store.delete(...call),
      create,
    };
    return { ...client, store: bound };
  }
}

/** Holds back what watches tell. */
class Lag {
  readonly #frozen = new Set<string>();
  #held: (() => void)[] = [];

  freeze(resource: string): void {
    this.#frozen.add(resource);
  }

  tellOne(): void {
    this.#held.shift()?.();
  }

  thaw(): void {
    this.#frozen.clear();
    const held = this.#held;
    this.#held = [];
    for (const tell of held) tell();
  }

  wrap(client: KubeClient): KubeClient {
    return {
      ...client,
      reflect: (type, selection) => {
        const source = client.reflect(type, selection);
        type Told = Reflection<KubeObject>;
        const subscribe = (tell: (told: Told) => void) =>
          source.subscribe((told) => {
            if (this.#frozen.has(type.resource))
              this.#held.push(() => {
                tell(told);
              });
            else tell(told);
          });
        // A cache does nothing but subscribe.
        return { subscribe } as unknown as typeof source;
      },
    };
  }
}

/** Starts one; resolves when its caches are filled. `clock` is its own, the server's if absent. */
export async function startController(
  server: TestServer,
  clock: Clock = server.clock,
): Promise<Controller> {
  const lag = new Lag();
  const policy = new Policy();
  const stop = new AbortController();
  const ready = Promise.withResolvers<undefined>();
  const metrics = createMetrics();
  const bare = await server.client(ACCOUNT, [], (request) => {
    metrics.countApiRequest(request);
  });
  const calls: string[] = [];
  const client = { ...bare, store: noteCalls(bare.store, (call) => calls.push(call)) };
  const context = {
    client: policy.wrap(lag.wrap(client)),
    clock,
    log: server.log,
    metrics,
    health: new DaemonHealth({ clock, log: server.log }),
    signal: stop.signal,
    ready: () => {
      ready.resolve(undefined);
    },
  };
  const flags = { logLevel: "info" as const, launcherImage: "virt-launcher", concurrency: 2 };
  const running = runController(context, flags);
  await ready.promise;
  return {
    calls,
    metrics: () => metrics.print(),
    freeze: (resource) => {
      lag.freeze(resource);
    },
    tellOne: () => {
      lag.tellOne();
    },
    thaw: () => {
      lag.thaw();
    },
    refuse: (resource, message) => {
      policy.refuse(resource, message);
    },
    refusals: () => policy.count,
    stop: async () => {
      stop.abort(new Error("the test ends it"));
      await running;
    },
  };
}
