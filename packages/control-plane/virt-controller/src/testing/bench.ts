// SPDX-License-Identifier: Apache-2.0
// Runs single passes without a server and queues. Tests set the contents of caches and the calls that the server rejects.
import {
  IPAM_CLAIMS,
  KUBEVIRTS,
  MIGRATION_POLICIES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PODS,
  RESOURCE_CLAIMS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type IpamClaim,
  type KubeVirt,
  type MigrationPolicy,
  type NetworkAttachmentDefinition,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type {
  KubeNode,
  KubeObject,
  ObjectMeta,
  PersistentVolumeClaim,
  Pod,
  ResourceClaim,
} from "@patchbay/api/kubernetes";
import { AppError, KeyedMutex } from "@patchbay/base";
import {
  trimLauncher,
  trimStoredVm,
  trimStoredVmi,
  withTrimmedAnnotations,
} from "@patchbay/core/vm";

import { createMutationCache, createStepBackoff, type Next } from "@patchbay/kube";
import type { Cache, ObjectKey, Store } from "@patchbay/core/interfaces";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import type { Deps } from "../deps.ts";
import { createImageVolumes } from "../image-volumes.ts";
import { reconcile } from "../reconcilers/index.ts";
import { reconcileEvacuation } from "../reconcilers/evacuation.ts";
import { reconcileMigrations } from "../reconcilers/migration/index.ts";
import { createDeferrals } from "../reconcilers/vm/deferrals.ts";
import { reconcileVm } from "../reconcilers/vm/index.ts";
import { reconcileVmi } from "../reconcilers/vmi/index.ts";

/** Key of `aVm` and `aVmi`. */
export const KEY = { namespace: "default", name: "vm1" };

class FilledCache<T extends KubeObject> implements Cache<T> {
  readonly #objects = new Map<string, T>();

  deliver({ namespace = "", name }: ObjectKey, object: T | undefined): void {
    const key = `${namespace}/${name}`;
    if (object === undefined) this.#objects.delete(key);
    else this.#objects.set(key, object);
  }
  find({ namespace = "", name }: ObjectKey): T | undefined {
    return this.#objects.get(`${namespace}/${name}`);
  }
  list(): readonly T[] {
    return [...this.#objects.values()];
  }
  listBy(): readonly T[] {
    return this.list();
  }
  onChange(): () => void {
    return () => undefined;
  }
  synced(): Promise<void> {
    return Promise.resolve();
  }
}

interface Refusal {
  readonly error: Error;
  readonly isRefused: (metadata: Partial<ObjectMeta>) => boolean;
}

export class Bench {
  /** Store that rejects nothing, for other writers and for assertions. */
  readonly server: FakeStore = createFakeStore();
  /** Recorded events: kind of the object, type, reason and message. */
  readonly events: string[] = [];
  readonly lines: string[] = [];
  readonly vms = new FilledCache<VirtualMachine>();
  readonly vmis = new FilledCache<VirtualMachineInstance>();
  readonly migrations = new FilledCache<VirtualMachineInstanceMigration>();
  readonly policies = new FilledCache<MigrationPolicy>();
  readonly pods = new FilledCache<Pod>();
  readonly kubevirts = new FilledCache<KubeVirt>();
  readonly claims = new FilledCache<PersistentVolumeClaim>();
  readonly nodes = new FilledCache<KubeNode>();
  readonly ipamClaims = new FilledCache<IpamClaim>();
  readonly nads = new FilledCache<NetworkAttachmentDefinition>();
  readonly resourceClaims = new FilledCache<ResourceClaim>();
  /** Names of the watched ResourceClaims. */
  watchedClaims: readonly string[] = [];
  areClaimWatchesSynced = true;
  /** Time of both clocks, in milliseconds. */
  nowMs = Date.UTC(2026, 0, 1);
  /** Calls of the loops since the last update of the caches, for example `patch pods default/a`. */
  calls: readonly string[] = [];
  writes = 0;
  #lostAt = 0;
  readonly #refusals = new Map<string, Refusal>();
  #judge: (object: KubeObject) => AppError["code"] | undefined = () => undefined;
  readonly #deps: Deps;

  constructor() {
    const clock = {
      now: () => this.nowMs,
      monotonicMs: () => this.nowMs,
      sleep: () => Promise.resolve(),
    };
    const log = {
      ...createSilentLogger(),
      info: (message: string, fields?: object) =>
        void this.lines.push(`${message} ${JSON.stringify(fields)}`),
      warn: (message: string, fields?: object) =>
        void this.lines.push(`${message} ${JSON.stringify(fields)}`),
    };
    const store = this.#refusingStore();
    this.#deps = {
      vms: this.vms,
      vmis: this.vmis,
      pods: this.pods,
      kubevirts: this.kubevirts,
      migrations: this.migrations,
      policies: this.policies,
      claims: this.claims,
      nodes: this.nodes,
      nads: this.nads,
      ipamClaims: this.ipamClaims,
      resourceClaims: {
        setUsed: (_user, keys) => {
          this.watchedClaims = keys.map(({ name }) => name);
        },
        list: () => (this.areClaimWatchesSynced ? this.#listWatchedClaims() : undefined),
      },
      store,
      instancetypes: this.server,
      mutationCache: createMutationCache(),
      macMutex: new KeyedMutex(),
      events: {
        record: ({ kind }, { type, reason, message }) => {
          this.events.push(`${kind} ${type} ${reason}: ${message}`);
        },
        flush: () => Promise.resolve(),
      },
      stepBackoff: createStepBackoff({ clock, random: () => 0 }),
      deferrals: createDeferrals(clock, 30_000),
      clock,
      log,
      randomBytes: (count) => new Uint8Array(count).fill(1),
      podNetwork: { passesAnyMac: false },
      ovnDefaultNetwork: "ovn-kubernetes/default",
      launcherImage: "virt-launcher",
      sidecarShimImage: "shim",
      imageVolumes: createImageVolumes({ store, log }),
    };
  }

  /** Writes an object and updates the caches; with `meanwhile` the caches stay stale. */
  async put<T extends KubeObject>(
    type: ResourceType<T>,
    object: T,
    when: "known" | "meanwhile" = "known",
  ): Promise<void> {
    this.server.put(type, object);
    if (when === "known") await this.catchUp();
  }

  /** Updates the caches from the store, and clears `calls`. */
  async catchUp(): Promise<void> {
    await this.#learn(VIRTUAL_MACHINES, this.vms, trimStoredVm);
    await this.#learn(VIRTUAL_MACHINE_INSTANCES, this.vmis, trimStoredVmi);
    await this.#learn(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, this.migrations, withTrimmedAnnotations);
    await this.#learn(MIGRATION_POLICIES, this.policies);
    await this.#learn(PODS, this.pods, trimLauncher);
    await this.#learn(KUBEVIRTS, this.kubevirts);
    await this.#learn(PERSISTENT_VOLUME_CLAIMS, this.claims, withTrimmedAnnotations);
    await this.#learn(NODES, this.nodes);
    await this.#learn(NETWORK_ATTACHMENT_DEFINITIONS, this.nads);
    await this.#learn(IPAM_CLAIMS, this.ipamClaims, withTrimmedAnnotations);
    await this.#learn(RESOURCE_CLAIMS, this.resourceClaims);
    this.calls = [];
  }

  /** Rejects calls such as `create pods` until it is called with undefined. */
  refuse(call: string, code: AppError["code"] | undefined): void {
    if (code === undefined) this.#refusals.delete(call);
    else this.refuseWith(call, new AppError(code, { message: `${call} refused` }));
  }

  /** Rejects calls on objects for which `isRefused` returns true. */
  refuseWith(
    call: string,
    error: Error,
    isRefused: (metadata: Partial<ObjectMeta>) => boolean = () => true,
  ): void {
    this.#refusals.set(call, { error, isRefused });
  }

  /** Executes the write with this number and discards its response, as if the process crashed. */
  loseAnswer(toWrite: number): void {
    this.#lostAt = toWrite;
  }

  /** Rejects patches for which `judge` returns a code. */
  judgePatch(judge: (object: KubeObject) => AppError["code"] | undefined): void {
    this.#judge = judge;
  }

  passVm(): Promise<Next> {
    return reconcileVm("default/vm1", this.#deps);
  }

  passMigrations(): Promise<Next> {
    return reconcileMigrations("default/vm1", this.#deps);
  }

  passEvacuation(): Promise<Next> {
    return reconcileEvacuation("default/vm1", this.#deps);
  }

  pass(): Promise<Next> {
    return reconcile("default/vm1", this.#deps);
  }

  passVmi(): Promise<Next> {
    return reconcileVmi("default/vm1", this.#deps);
  }

  /** Runs VMI passes until one writes nothing. */
  async settleVmi(): Promise<void> {
    await this.#settle(() => this.passVmi());
  }

  /** Runs VM passes until one writes nothing. */
  async settleVm(): Promise<void> {
    await this.#settle(() => this.passVm());
  }

  async vm(): Promise<VirtualMachine | undefined> {
    return this.server.find(VIRTUAL_MACHINES, KEY);
  }

  async vmi(): Promise<VirtualMachineInstance | undefined> {
    return this.server.find(VIRTUAL_MACHINE_INSTANCES, KEY);
  }

  #listWatchedClaims(): readonly ResourceClaim[] {
    const claims = this.resourceClaims.list();
    return claims.filter(({ metadata }) => this.watchedClaims.includes(metadata.name));
  }

  async #settle(pass: () => Promise<Next>): Promise<void> {
    for (let count = 0; count < 10; count += 1) {
      await pass();
      if (this.calls.every((call) => call.startsWith("get"))) return;
      await this.catchUp();
    }
    throw new Error(`never settles: ${this.calls.join()}`);
  }

  async #learn<T extends KubeObject>(
    type: ResourceType<T>,
    cache: FilledCache<T>,
    trim = (object: T): T => object,
  ): Promise<void> {
    for (const { metadata } of cache.list()) cache.deliver(metadata, undefined);
    const { items } = await this.server.list(type);
    for (const item of items) cache.deliver(item.metadata, trim(item));
  }

  #try(verb: string, { resource }: ResourceType<KubeObject>, key: ObjectKey): void {
    this.calls = [...this.calls, `${verb} ${resource} ${key.namespace ?? ""}/${key.name}`];
    const refusal = this.#refusals.get(`${verb} ${resource}`);
    if (refusal?.isRefused(key) === true) throw refusal.error;
  }

  #answer<T>(answer: T): T {
    this.writes += 1;
    if (this.writes !== this.#lostAt) return answer;
    throw new AppError("KUBE_UNREACHABLE", { server: "test", message: "the answer is lost" });
  }

  #refusingStore(): Store {
    const { server } = this;
    return {
      find: async (type, key, options) => {
        this.#try("get", type, key);
        return server.find(type, key, options);
      },
      list: server.list.bind(server),
      update: server.update.bind(server),
      create: async (type, object, options) => {
        this.#try(options?.dryRun === true ? "ask" : "create", type, object.metadata);
        return this.#answer(await server.create(type, object, options));
      },
      patch: async (type, key, patch, options) => {
        this.#try("patch", type, key);
        const would = await server.patch(type, key, patch, { ...options, dryRun: true });
        const code = this.#judge(would);
        if (code !== undefined) throw new AppError(code, { message: "judged bad" });
        return this.#answer(await server.patch(type, key, patch, options));
      },
      delete: async (type, key, options) => {
        this.#try("delete", type, key);
        await server.delete(type, key, options);
        this.#answer(undefined);
      },
    };
  }
}
