// SPDX-License-Identifier: Apache-2.0
// A guest and two nodes between which it migrates, with actors that may be late or fail. Checks virt-controller's actions against the true
// state.
import {
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  isAbsent,
  isMigrationFinal,
  isVmiFinal,
  type IfaceStatus,
  type MigrationState,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { ifacesOf } from "@patchbay/core/nics";
import { isEqual } from "@patchbay/base";
import { openMigration } from "@patchbay/core/migration";
import { emulateFinalizers } from "./random-cluster.ts";
import { aMigration, Migrating } from "./migrating.ts";
import { LAUNCHER } from "./launched-vmi.ts";

/** Result of a migration in one round. */
export type MigrationResult = "arrives" | "stays" | "moves on";

const NICS = [
  { name: "one", mac: "02:00:00:00:00:01" },
  { name: "two", network: "red", mac: "02:00:00:00:00:02" },
];

export class TwoNodes {
  readonly scenario = new Migrating();
  /** Name of the pod that has the guest; undefined after the guest's end. */
  guest: string | undefined = LAUNCHER;
  readonly faults: string[] = [];
  #isMigrating = false;
  #count = 0;
  readonly #remove = emulateFinalizers(this.scenario.bench);

  async begin(): Promise<void> {
    await this.scenario.start([], NICS);
  }

  async vmi(): Promise<VirtualMachineInstance | undefined> {
    return this.scenario.bench.vmi();
  }

  async pods(): Promise<readonly Pod[]> {
    return (await this.scenario.bench.server.list(PODS)).items;
  }

  requestMigration(): void {
    this.#count += 1;
    const second = String(this.#count % 60).padStart(2, "0");
    const minute = String(Math.floor(this.#count / 60)).padStart(2, "0");
    const creationTimestamp = `2026-01-01T00:${minute}:${second}Z`;
    const migration = aMigration(`m${String(this.#count)}`, { creationTimestamp });
    this.scenario.bench.server.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, migration);
  }

  async cancel(): Promise<void> {
    const { items } = await this.scenario.bench.server.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS);
    const open = items.find((migration) => !isMigrationFinal(migration));
    if (open === undefined) return;
    await this.scenario.bench.server.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, open.metadata);
  }

  async stop(): Promise<void> {
    const vmi = await this.vmi();
    if (vmi !== undefined) {
      await this.scenario.bench.server.delete(VIRTUAL_MACHINE_INSTANCES, vmi.metadata);
    }
  }

  async toggle(name: string): Promise<void> {
    await this.#change((vmi) => {
      const { spec } = vmi;
      const { devices } = spec.domain;
      const has = ifacesOf(spec);
      const isThere = has.some((iface) => iface.name === name);
      const interfaces = isThere
        ? has.map((iface) => (iface.name === name ? { ...iface, state: "absent" } : iface))
        : [...has, { name, bridge: {} }];
      const networks = isThere
        ? (spec.networks ?? [])
        : [...(spec.networks ?? []), { name, multus: { networkName: "green" } }];
      const domain = { ...spec.domain, devices: { ...devices, interfaces } };
      return { ...vmi, spec: { ...spec, networks, domain } };
    });
  }

  /** Ends one of the pods, and its guest if it has one. */
  async endPod(which: "guest's" | "other"): Promise<void> {
    const pods = await this.pods();
    const pod = pods.find(
      ({ metadata }) => (metadata.name === this.guest) === (which === "guest's"),
    );
    if (pod === undefined) return;
    this.scenario.bench.server.put(PODS, { ...pod, status: { ...pod.status, phase: "Failed" } });
    if (which === "guest's") this.#endGuest();
  }

  /** Runs one pass, which may fail, and checks all invariants. Returns whether it failed or wrote. */
  async pass(): Promise<boolean> {
    const { bench } = this.scenario;
    const before = bench.calls.length;
    const isDone = await bench
      .passMigrations()
      .then(() => bench.passVmi())
      .then(
        () => true,
        () => false,
      );
    await this.#checkInvariants();
    return !isDone || bench.calls.slice(before).some((call) => !call.startsWith("get"));
  }

  /** Acts as the nodes. Returns whether anything changed. */
  async actNodes(outcome: MigrationResult): Promise<boolean> {
    const before = await this.#snapshot();
    for (const pod of await this.pods()) await this.#actPod(pod);
    await this.#actMigration(outcome);
    await this.#change((vmi) => this.#withIfaceStatuses(vmi));
    return !isEqual(before, await this.#snapshot());
  }

  async learn(): Promise<void> {
    await this.scenario.bench.catchUp();
  }

  /** Runs until no actor finds work, even after some time. */
  async settle(): Promise<void> {
    let quiet = 0;
    for (let round = 0; round < 80; round += 1) {
      await this.learn();
      const wrote = await this.pass();
      const acted = await this.actNodes("arrives");
      quiet = wrote || acted ? 0 : quiet + 1;
      if (quiet > 1) return;
      // A rejected step backs off for a while.
      this.scenario.bench.nowMs += quiet === 1 ? 1_000_000 : 10_000;
    }
    throw new Error(`it is not at rest: ${this.scenario.bench.calls.join(", ")}`);
  }

  async #snapshot(): Promise<unknown> {
    return [await this.vmi(), await this.pods(), this.guest, this.#isMigrating];
  }

  #endGuest(): void {
    this.guest = undefined;
    this.#isMigrating = false;
  }

  async #change(edit: (vmi: VirtualMachineInstance) => VirtualMachineInstance): Promise<void> {
    const vmi = await this.vmi();
    if (vmi === undefined) return;
    const next = edit(vmi);
    if (!isEqual(vmi, next)) this.scenario.bench.server.put(VIRTUAL_MACHINE_INSTANCES, next);
  }

  async #actPod(pod: Pod): Promise<void> {
    const { metadata, spec, status } = pod;
    if (metadata.deletionTimestamp !== undefined) {
      if (metadata.name === this.guest) this.#endGuest();
      await this.#remove(PODS, metadata);
      return;
    }
    const here = (await this.vmi())?.status?.nodeName;
    const nodeName = spec.nodeName ?? (here === "node1" ? "node2" : "node1");
    const requested = parseNetworks(metadata.annotations?.[names.NETWORKS_ANNOTATION]);
    const has = (requested.ok ? requested.elements : []).map((element) => ({
      name: `${element.namespace ?? ""}/${element.name}`,
      interface: element.interface,
    }));
    const statusAnnotation = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(has) };
    const next: Pod = {
      ...pod,
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...statusAnnotation } },
      spec: { ...spec, nodeName },
      status: { phase: "Running", ...status },
    };
    if (!isEqual(pod, next)) this.scenario.bench.server.put(PODS, next);
  }

  async #writeState(members: Partial<MigrationState>): Promise<void> {
    await this.#change((vmi) => {
      const migrationState = { ...vmi.status?.migrationState, ...members };
      return { ...vmi, status: { ...vmi.status, migrationState } };
    });
  }

  async #actMigration(outcome: MigrationResult): Promise<void> {
    const vmi = await this.vmi();
    const open = vmi && openMigration(vmi);
    if (open === undefined) return;
    const target = (await this.pods()).find(({ metadata }) => metadata.name === open.targetPod);
    const isReady = target?.status?.phase === "Running";
    if (isReady && open.targetNodeAddress === undefined) {
      const targetDirectMigrationNodePorts = { "40000": 0 };
      await this.#writeState({ targetNodeAddress: "192.0.2.2", targetDirectMigrationNodePorts });
    } else if (this.guest === open.sourcePod) await this.#actSource(open, outcome, isReady);
  }

  async #actSource(
    open: MigrationState,
    outcome: MigrationResult,
    isReady: boolean,
  ): Promise<void> {
    if (open.failed === true) return;
    if (open.startTimestamp === undefined) {
      if (open.targetNodeAddress === undefined) return;
      this.#isMigrating = true;
      await this.#writeState({ startTimestamp: "2026-01-01T00:00:00.000Z" });
      return;
    }
    const stays = outcome === "stays" || !isReady || !this.#isMigrating;
    if (outcome === "moves on") return;
    this.#isMigrating = false;
    if (stays) await this.#writeState({ failed: true, failureReason: "it stays" });
    else {
      this.guest = open.targetPod;
      const time = "2026-01-01T00:00:01.000Z";
      await this.#writeState({
        targetNodeDomainDetected: true,
        targetNodeDomainReadyTimestamp: time,
      });
    }
  }

  /** Updates the interface statuses of the guest's node, which do not change during a migration. */
  #withIfaceStatuses(vmi: VirtualMachineInstance): VirtualMachineInstance {
    if (openMigration(vmi) !== undefined || this.guest === undefined) return vmi;
    const interfaces = (vmi.status?.attachments ?? []).flatMap((each): IfaceStatus[] => {
      const { name, podInterfaceName, state } = each;
      const iface = ifacesOf(vmi.spec).find((one) => one.name === name);
      if (iface === undefined || isAbsent(iface) || state === "Removing") {
        return [{ name, podInterfaceName, hotplug: { type: "Unplug", phase: "PodDetaching" } }];
      }
      const phase = state === "Attached" ? "Ready" : "PodAttaching";
      return [{ name, podInterfaceName, hotplug: { type: "Plug", phase } }];
    });
    return { ...vmi, status: { ...vmi.status, interfaces } };
  }

  /** Checks the invariants, and adds violations to `faults`. */
  async #checkInvariants(): Promise<void> {
    const vmi = await this.vmi();
    if (vmi === undefined || this.guest === undefined) return;
    const pod = (await this.pods()).find(({ metadata }) => metadata.name === this.guest);
    const isStopped = vmi.metadata.deletionTimestamp !== undefined;
    if (pod === undefined) this.faults.push("the guest's pod is gone");
    else if (pod.metadata.deletionTimestamp !== undefined && !isStopped) {
      this.faults.push("the guest's pod is deleted, and nobody stops the VM");
    }
    if (isVmiFinal(vmi)) this.faults.push("the VMI has ended, and its guest runs");
    const isMigrating = openMigration(vmi) !== undefined;
    if (pod?.metadata.deletionTimestamp !== undefined && isMigrating) {
      this.faults.push("the guest's pod is deleted, and its migration has not ended");
    }
    if (!isMigrating && pod !== undefined && vmi.status?.nodeName !== pod.spec.nodeName) {
      this.faults.push("the VMI names another node than the guest's");
    }
  }
}
