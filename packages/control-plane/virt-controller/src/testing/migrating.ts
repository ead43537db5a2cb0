// SPDX-License-Identifier: Apache-2.0
// A guest that migrates from node1 to node2, with all actors: scheduler, kubelet, net-agent and both nodes.
import {
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type MigrationState,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
  type VmiStatus,
} from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { launcherPodName } from "@patchbay/core/migration";
import { aVmi, type NicSketch } from "@patchbay/support";
import { Bench, KEY } from "./bench.ts";
import { launcher } from "./launched-vmi.ts";

type Migration = VirtualMachineInstanceMigration;

export const UID = "m1";
const START = "2026-01-01T00:00:01.000Z";

export function aMigration(uid = UID, metadata: Partial<Migration["metadata"]> = {}): Migration {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: VIRTUAL_MACHINE_INSTANCE_MIGRATIONS.kind,
    metadata: {
      name: `move-${uid}`,
      namespace: "default",
      uid,
      resourceVersion: "1",
      creationTimestamp: "2026-01-01T00:00:00Z",
      ...metadata,
    },
    spec: { vmiName: "vm1" },
  };
}

/** Returns the name of the pod NIC for the VMI's NIC at that index. */
export function podNicAt(index: number): string {
  return `pod${index.toString(16).padStart(11, "0")}`;
}

/** Builds the status that the source's node reports. */
function statusOf(nics: readonly NicSketch[]): VmiStatus {
  return {
    phase: "Running",
    nodeName: "node1",
    activePods: { "pod-uid": "node1" },
    conditions: [{ type: "LiveMigratable", status: "True" }],
    attachments: nics.map(({ name, network = "blue" }, index) => ({
      name,
      networkName: `default/${network}`,
      podInterfaceName: podNicAt(index),
      state: "Attached" as const,
      ips: [`192.0.2.${String(index + 1)}`],
    })),
    interfaces: nics.map(({ name }, index) => ({
      name,
      podInterfaceName: podNicAt(index),
      hotplug: { type: "Plug" as const, phase: "Ready" as const },
    })),
  };
}

/** Builds the network annotations of a pod with these NICs. */
function annotationsOf(nics: readonly NicSketch[]): Readonly<Record<string, string>> {
  const requested = nics.map(({ network = "blue" }, index) => ({
    name: network,
    namespace: "default",
    interface: podNicAt(index),
  }));
  const has = requested.map(({ name, interface: nic }, index) => ({
    name: `default/${name}`,
    interface: nic,
    ips: [`192.0.2.${String(index + 1)}`],
  }));
  return {
    [names.NETWORKS_ANNOTATION]: JSON.stringify(requested),
    [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(has),
  };
}

export class Migrating {
  readonly bench = new Bench();

  /** Starts a guest on node1, and a migration of it. */
  static async begin(
    nics: readonly NicSketch[] = [{ name: "one", mac: "02:00:00:00:00:01" }],
    migrations: readonly Migration[] = [aMigration()],
  ): Promise<Migrating> {
    const scenario = new Migrating();
    await scenario.start(migrations, nics);
    return scenario;
  }

  async start(migrations: readonly Migration[], nics: readonly NicSketch[] = []): Promise<void> {
    const vmi = aVmi({ nics, status: statusOf(nics) });
    const labels = { [names.NODE_NAME_LABEL]: "node1" };
    const { bench } = this;
    await bench.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, metadata: { ...vmi.metadata, labels } });
    await bench.put(PODS, launcher(annotationsOf(nics)));
    for (const migration of migrations) {
      await bench.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, migration);
    }
    await this.settle();
  }

  async migration(uid = UID): Promise<Migration | undefined> {
    return this.bench.server.find(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, {
      ...KEY,
      name: `move-${uid}`,
    });
  }

  async phase(uid = UID): Promise<string | undefined> {
    return (await this.migration(uid))?.status?.phase;
  }

  async vmi(): Promise<VirtualMachineInstance> {
    const vmi = await this.bench.vmi();
    if (vmi === undefined) throw new Error("there is no VMI");
    return vmi;
  }

  async state(): Promise<MigrationState> {
    return (await this.vmi()).status?.migrationState ?? {};
  }

  async findTarget(uid = UID): Promise<Pod | undefined> {
    const name = launcherPodName(aVmi(), uid);
    return this.bench.server.find(PODS, { ...KEY, name });
  }

  async target(uid = UID): Promise<Pod> {
    const pod = await this.findTarget(uid);
    if (pod === undefined) throw new Error("there is no target pod");
    return pod;
  }

  async findSource(): Promise<Pod | undefined> {
    return this.bench.server.find(PODS, { ...KEY, name: launcherPodName(aVmi()) });
  }

  /** Runs passes until they write nothing. */
  async settle(): Promise<void> {
    for (let count = 0; count < 12; count += 1) {
      await this.bench.catchUp();
      await this.bench.passMigrations();
      await this.bench.passVmi();
      if (this.bench.calls.every((call) => call.startsWith("get"))) return;
    }
    throw new Error(`never settles: ${this.bench.calls.join()}`);
  }

  async createMigration(migration: Migration): Promise<void> {
    await this.bench.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, migration);
    await this.settle();
  }

  /** Runs the target pod, like scheduler, kubelet and net-agent. */
  async runTarget(uid = UID, status: Pod["status"] = {}, nodeName = "node2"): Promise<void> {
    const pod = await this.target(uid);
    const next: Pod = {
      ...pod,
      spec: { ...pod.spec, nodeName },
      status: { phase: "Running", ...status },
    };
    await this.attach(next);
  }

  /** Attaches exactly the networks that the pod requests. */
  async attach(pod: Pod | undefined): Promise<void> {
    if (pod === undefined) return;
    const requested = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
    const has = (requested.ok ? requested.elements : []).map((element) => ({
      name: `${element.namespace ?? ""}/${element.name}`,
      interface: element.interface,
      ips: element["io.patchbay.kept-ips"],
    }));
    const status = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(has) };
    const annotations = { ...pod.metadata.annotations, ...status };
    await this.bench.put(PODS, { ...pod, metadata: { ...pod.metadata, annotations } });
    await this.settle();
  }

  /** Writes a node's fields of the migration state. */
  async writeState(members: Partial<MigrationState>): Promise<void> {
    const vmi = await this.vmi();
    const migrationState = { ...vmi.status?.migrationState, ...members };
    const next = { ...vmi, status: { ...vmi.status, migrationState } };
    await this.bench.put(VIRTUAL_MACHINE_INSTANCES, next);
    await this.settle();
  }

  /** Reports that the target's relay listens. */
  async listen(): Promise<void> {
    await this.writeState({
      targetNodeAddress: "192.0.2.2",
      targetDirectMigrationNodePorts: { "40000": 0 },
    });
  }

  /** Reports that the source starts to send the guest. */
  async send(): Promise<void> {
    await this.writeState({ startTimestamp: START, mode: "PreCopy" });
  }

  /** Runs until the source sends the guest. */
  async runUntilSending(): Promise<void> {
    await this.settle();
    await this.runTarget();
    await this.listen();
    await this.send();
  }

  async arrive(): Promise<void> {
    await this.writeState({
      targetNodeDomainDetected: true,
      targetNodeDomainReadyTimestamp: "2026-01-01T00:00:02.000Z",
    });
  }

  async endPod(pod: Pod | undefined, phase: "Succeeded" | "Failed" = "Succeeded"): Promise<void> {
    if (pod === undefined) return;
    await this.bench.put(PODS, { ...pod, status: { ...pod.status, phase } });
    await this.settle();
  }

  /** Deletes the migration, which has a finalizer. */
  async cancel(uid = UID): Promise<void> {
    const migration = await this.migration(uid);
    if (migration === undefined) return;
    const metadata = { ...migration.metadata, deletionTimestamp: START };
    await this.bench.put(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, { ...migration, metadata });
    await this.settle();
  }

  /** Deletes the VMI, which has a finalizer. */
  async stop(): Promise<void> {
    const vmi = await this.vmi();
    const metadata = { ...vmi.metadata, deletionTimestamp: START };
    await this.bench.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, metadata });
    await this.settle();
  }
}
