// SPDX-License-Identifier: Apache-2.0
import type { ConfigMap, KubeObject, Pod, PodVolume, Secret } from "@patchbay/api/kubernetes";
import { KeyedMutex, SharePool } from "@patchbay/base";
import { type StartableCache } from "@patchbay/kube";
import { createFakeCache, type FakeCache } from "@patchbay/kube/testing";
import {
  createFakeClock,
  createFakeFiles,
  createFakeVhostDirectories,
  createFakeVolumeDisk,
  type FakeClock,
  type FakeFiles,
  type FakeVhostDirectories,
  type FakeVolumeDisk,
} from "@patchbay/os/testing";
import { createFakeLogger, type FakeLogger } from "@patchbay/telemetry/testing";
import { PREPARATION_LIMITS, type VolumeDeps } from "./deps.ts";
import { createPodObjects } from "./objects/pod-objects.ts";
import { createPodTokens, type RequestToken } from "./objects/pod-tokens.ts";

export const PODS_DIR = "/pods";
export const UID = "0f1e2d3c";

export interface VolumeBench {
  readonly deps: VolumeDeps;
  readonly disk: FakeVolumeDisk;
  readonly sockets: FakeVhostDirectories;
  readonly files: FakeFiles;
  readonly clock: FakeClock;
  readonly log: FakeLogger;
  /** Watches by kind and namespace, for example `Secret ns`. Includes ended watches. */
  readonly watches: ReadonlyMap<string, { readonly cache: FakeCache<KubeObject>; isOpen: boolean }>;
  readonly imageMounts: ReadonlyMap<string, string>;
  /** Claims in use, as `POD_UID CLAIM`. */
  readonly claims: ReadonlySet<string>;
  /** Requested tokens, as `AUDIENCE SECONDS`. */
  readonly requests: readonly string[];
  put(...objects: readonly (ConfigMap | Secret)[]): void;
  take(kind: "ConfigMap" | "Secret", name: string): void;
  /** Sets the host directories that VMs may use. Undefined, which is the default, disables the feature. */
  setHostDisks(directories: readonly string[] | undefined): void;
  refuseTokens(): void;
}

export function aPodWith(volumes: readonly PodVolume[], change: Partial<Pod["spec"]> = {}): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace: "ns", uid: UID, labels: { app: "x" } },
    spec: {
      nodeName: "n",
      serviceAccountName: "default",
      containers: [{ name: "main", image: "i" }],
      volumes,
      ...change,
    },
  };
}

export function aConfigMap(name: string, data: Readonly<Record<string, string>>): ConfigMap {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: "ns", uid: name },
    data,
  };
}

export function aSecret(name: string, texts: Readonly<Record<string, string>>): Secret {
  const data: Record<string, string> = {};
  for (const [key, text] of Object.entries(texts)) data[key] = btoa(text);
  const metadata = { name, namespace: "ns", uid: name };
  return { apiVersion: "v1", kind: "Secret", metadata, data };
}

class Bench implements VolumeBench {
  readonly disk = createFakeVolumeDisk();
  readonly sockets = createFakeVhostDirectories();
  readonly files = createFakeFiles();
  readonly clock = createFakeClock();
  readonly log = createFakeLogger();
  readonly watches = new Map<string, { readonly cache: FakeCache<KubeObject>; isOpen: boolean }>();
  readonly imageMounts = new Map<string, string>();
  readonly requests: string[] = [];
  readonly claims = new Set<string>();
  readonly deps: VolumeDeps;
  readonly #objects = new Map<string, KubeObject>();
  #version = 0;
  #refusesTokens = false;
  #hostDisks: readonly string[] | undefined;

  constructor(signal: AbortSignal) {
    const { clock, log } = this;
    const images = {
      mount: (reference: string, path: string) => {
        this.imageMounts.set(path, reference);
        return this.files.ensureDirectory(path);
      },
      unmount: (path: string) => {
        this.imageMounts.delete(path);
        return Promise.resolve();
      },
    };
    const node = { name: "n", hostIp: "192.0.2.1", podsDir: PODS_DIR, logDir: "/logs" };
    this.deps = {
      disk: this.disk,
      files: this.files,
      clock,
      log,
      images,
      sockets: this.sockets,
      node: { ...node, cgroupParent: "/patchbay", memoryBytes: 2 ** 34 },
      objects: createPodObjects(
        {
          openCache: (type, namespace) => this.#open(type.kind, namespace),
          readObject: ({ kind }, { name }) => Promise.resolve(this.#objects.get(`${kind}/${name}`)),
          clock,
          log,
        },
        signal,
      ),
      tokens: createPodTokens(this.#request, { clock, log }),
      mutex: new KeyedMutex(),
      preparations: new SharePool(PREPARATION_LIMITS),
      claims: {
        begin: ({ metadata }, { claimName }) => {
          this.claims.add(`${metadata.uid ?? ""} ${claimName}`);
          return Promise.resolve(`/claims/${claimName}`);
        },
        end: (uid) => {
          for (const use of this.claims) if (use.startsWith(`${uid} `)) this.claims.delete(use);
          return Promise.resolve();
        },
      },
      mayUseHostPaths: ({ metadata }) => metadata.namespace === "patchbay",
      readHostDiskDirectories: () => Promise.resolve(this.#hostDisks),
    };
  }

  put(...objects: readonly (ConfigMap | Secret)[]): void {
    for (const object of objects) {
      this.#version += 1;
      const resourceVersion = String(this.#version);
      const stored = { ...object, metadata: { ...object.metadata, resourceVersion } };
      this.#objects.set(`${object.kind}/${object.metadata.name}`, stored);
      const watch = this.watches.get(`${object.kind} ns`);
      if (watch?.isOpen === true) watch.cache.put(stored);
    }
  }

  take(kind: "ConfigMap" | "Secret", name: string): void {
    this.#objects.delete(`${kind}/${name}`);
    this.watches.get(`${kind} ns`)?.cache.take({ namespace: "ns", name });
  }

  setHostDisks(directories: readonly string[] | undefined): void {
    this.#hostDisks = directories;
  }

  refuseTokens(): void {
    this.#refusesTokens = true;
  }

  readonly #request: RequestToken = (_pod, { audience = "", expirationSeconds }) => {
    if (this.#refusesTokens) return Promise.reject(new Error("no tokens today"));
    this.requests.push(`${audience} ${String(expirationSeconds)}`);
    const text = `token ${String(this.requests.length)}`;
    return Promise.resolve({ text, expiresMs: this.clock.now() + expirationSeconds * 1000 });
  };

  #open(kind: string, namespace: string): StartableCache<KubeObject> {
    const cache = createFakeCache<KubeObject>();
    const watch = { cache, isOpen: false };
    this.watches.set(`${kind} ${namespace}`, watch);
    const start = (signal: AbortSignal): void => {
      watch.isOpen = true;
      signal.addEventListener("abort", () => {
        watch.isOpen = false;
      });
      for (const object of this.#objects.values())
        if (object.kind === kind && object.metadata.namespace === namespace) cache.put(object);
    };
    return Object.assign(cache, { start });
  }
}

/** Creates fakes of all volume dependencies. Their watches end when the signal is aborted. */
export function createVolumeBench(signal: AbortSignal = new AbortController().signal): VolumeBench {
  return new Bench(signal);
}
