// SPDX-License-Identifier: Apache-2.0
// Runs virt-controller in process against a test's API server, optionally with a lagging cache.
import { AppError, type Clock } from "@patchbay/base";
import type { KubeClient, Reflection } from "@patchbay/kube";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { DaemonHealth } from "@patchbay/daemon/testing";

import { noteCalls } from "@patchbay/kube/testing";
import type { TestServer } from "@patchbay/support/api-server";
import { createMetrics } from "@patchbay/telemetry";
import { runController } from "../compose.ts";

const ACCOUNT = "system:serviceaccount:patchbay:virt-controller";

export interface Controller {
  /** Verb and resource of each call to the API server. */
  readonly calls: readonly string[];
  /** Returns the metrics in Prometheus' text format. */
  metrics(): Promise<string>;
  /** Delays the events of this resource (plural name) until `thaw`. */
  freeze(resource: string): void;
  /** Delivers the oldest delayed event. */
  deliverOne(): void;
  /** Delivers all delayed events, in order. */
  thaw(): void;
  /** Rejects the creation of this resource (plural name) with the message; undefined accepts it again. */
  refuse(resource: string, message: string | undefined): void;
  refusals(): number;
  /** Returns the notes of `/readyz`. */
  notes(): readonly string[];
  cutOff(): void;
  /** Resolves when the controller ends; rejects when it fails. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

/** Policy that rejects the creation of resources. */
class Policy {
  readonly #refused = new Map<string, string>();
  #isCutOff = false;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  refuse(resource: string, message: string | undefined): void {
    if (message === undefined) this.#refused.delete(resource);
    else this.#refused.set(resource, message);
  }

  cutOff(): void {
    this.#isCutOff = true;
  }

  wrap(client: KubeClient): KubeClient {
    const { store } = client;
    const ifReachable = <T>(call: () => Promise<T>): Promise<T> =>
      this.#isCutOff
        ? Promise.reject(new AppError("KUBE_UNREACHABLE", { server: "test", message: "cut off" }))
        : call();
    const create: typeof store.create = (type, object, options) => {
      const message = this.#refused.get(type.resource);
      if (message === undefined) return ifReachable(() => store.create(type, object, options));
      this.#count += 1;
      return Promise.reject(new AppError("KUBE_FORBIDDEN", { message }));
    };
    const bound: typeof store = {
      find: (...call) => ifReachable(() => store.find(...call)),
      list: (...call) => ifReachable(() => store.list(...call)),
      update: (...call) => ifReachable(() => store.update(...call)),
      patch: (...call) => ifReachable(() => store.patch(...call)),
      delete: (...call) => ifReachable(() => store.delete(...call)),
      create,
    };
    return { ...client, store: bound };
  }
}

/** Delays watch events. */
class Lag {
  readonly #frozen = new Set<string>();
  #held: (() => void)[] = [];

  freeze(resource: string): void {
    this.#frozen.add(resource);
  }

  deliverOne(): void {
    this.#held.shift()?.();
  }

  thaw(): void {
    this.#frozen.clear();
    const held = this.#held;
    this.#held = [];
    for (const deliver of held) deliver();
  }

  wrap(client: KubeClient): KubeClient {
    return {
      ...client,
      reflect: (type, selection) => {
        const source = client.reflect(type, selection);
        type AnyReflection = Reflection<KubeObject>;
        const subscribe = (deliver: (reflection: AnyReflection) => void) =>
          source.subscribe((reflection) => {
            if (this.#frozen.has(type.resource))
              this.#held.push(() => {
                deliver(reflection);
              });
            else deliver(reflection);
          });
        // A cache calls only subscribe.
        return { subscribe } as unknown as typeof source;
      },
    };
  }
}

/** Settings that differ from those of the only controller of a server. */
export interface ControllerSettings {
  /** Clock of the controller; by default the server's. */
  readonly clock?: Clock;
  /** Whether the controller takes part in leader election. */
  readonly isElected?: boolean;
}

export async function startController(
  server: TestServer,
  { clock = server.clock, isElected: leaderElect = false }: ControllerSettings = {},
): Promise<Controller> {
  const lag = new Lag();
  const policy = new Policy();
  const stop = new AbortController();
  const ready = Promise.withResolvers<undefined>();
  const metrics = createMetrics("virt-controller");
  const health = new DaemonHealth({ clock, log: server.log });
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
    health,
    drainSignal: stop.signal,
    signal: stop.signal,
    ready: () => {
      ready.resolve(undefined);
    },
  };
  const flags = {
    logLevel: "info" as const,
    podNetworkPassesAnyMac: false,
    ovnDefaultNetwork: "ovn-kubernetes/default",
    launcherImage: "virt-launcher",
    sidecarShimImage: "shim",
    concurrency: 2,
    leaderElect,
    leaseNamespace: "patchbay",
  };
  const ended = runController(context, flags);
  ended.catch(() => undefined); // callers that await it get the error
  await ready.promise;
  return {
    calls,
    ended,
    metrics: () => metrics.print(),
    freeze: (resource) => {
      lag.freeze(resource);
    },
    deliverOne: () => {
      lag.deliverOne();
    },
    thaw: () => {
      lag.thaw();
    },
    refuse: (resource, message) => {
      policy.refuse(resource, message);
    },
    refusals: () => policy.count,
    notes: () => health.notes(),
    cutOff: () => {
      policy.cutOff();
    },
    stop: async () => {
      stop.abort(new Error("the test ends it"));
      await ended;
    },
  };
}
