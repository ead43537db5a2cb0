// SPDX-License-Identifier: Apache-2.0
// Shared helpers of migration tests: the bench's nodes, a migrating guest, and its observation.
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { eventually } from "@patchbay/support";
import type { VirtualMachineInstanceMigration } from "@patchbay/api";
import { machine } from "../machine.ts";
import { ROOT } from "../standalone.ts";

/** Time for a migration of a small guest with its pod, under software emulation on a busy machine. */
export const MOVE_MS = 120_000;

const MIGRATIONS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancemigrations";

export function otherNode(vmi: string, nodes: readonly string[]): string {
  const here = machine.findVmi(vmi)?.status?.nodeName;
  return nodes.find((name) => name !== here) ?? "";
}

export function findMigration(name: string): VirtualMachineInstanceMigration | undefined {
  return machine.read(`${MIGRATIONS}/${name}`) as VirtualMachineInstanceMigration | undefined;
}

/** Requests a migration by a manifest. */
export function requestMigration(vmi: string, name: string): void {
  machine.apply({
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstanceMigration",
    metadata: { name, namespace: "default" },
    spec: { vmiName: vmi },
  });
}

/**
 * Cancels a VM's running migration with virtctl's requests: lists the VM's migrations by label and deletes one. Source:
 * KubeVirt pkg/virtctl/vm/migrate_cancel.go.
 */
export function cancelAsVirtctl(vm: string): void {
  const selector = encodeURIComponent(`kubevirt.io/vmi-name in (${vm})`);
  const path = `${MIGRATIONS}?labelSelector=${selector}`;
  const { items } = machine.read(path) as {
    readonly items: readonly VirtualMachineInstanceMigration[];
  };
  const isFinal = (phase = ""): boolean => phase === "Succeeded" || phase === "Failed";
  const active = items.find(({ status }) => !isFinal(status?.phase));
  machine.kubectl("delete", "--raw", `${MIGRATIONS}/${active?.metadata.name ?? ""}`);
}

/** Migrates a VM with progress like a user; returns the output. */
export async function moveByCommand(vm: string): Promise<string> {
  const program = join(ROOT, "node_modules/.bin/patchbay");
  const args = ["--data-dir", machine.dataDir, "migrate", vm, "--wait", "--timeout", "170s"];
  return (await promisify(execFile)(program, args)).stdout;
}

/** Waits for its end; returns the final phase. */
export async function moveEnded(name: string): Promise<string> {
  return eventually(
    () => {
      const phase = findMigration(name)?.status?.phase;
      return phase === "Succeeded" || phase === "Failed" ? phase : undefined;
    },
    { withinMs: MOVE_MS },
  );
}

/** Names of a VMI's existing launcher pods. */
export function launchersOf(vmi: string): readonly string[] {
  return machine.list("pod", `vm.kubevirt.io/name=${vmi}`).map(({ metadata }) => metadata.name);
}

/** A policy that slows migrations of guests with that label, so that tests can interfere. */
export function slowPolicy(name: string): unknown {
  return {
    apiVersion: "migrations.kubevirt.io/v1alpha1",
    kind: "MigrationPolicy",
    metadata: { name },
    spec: {
      bandwidthPerMigration: "1Mi",
      selectors: { virtualMachineInstanceSelector: { pace: name } },
    },
  };
}

/** Waits until the target node has reported its listen address. */
export async function targetListens(vmi: string, name: string): Promise<void> {
  await eventually(
    () => {
      const { targetDirectMigrationNodePorts: ports, migrationUid } =
        machine.findVmi(vmi)?.status?.migrationState ?? {};
      return ports !== undefined && migrationUid === findMigration(name)?.metadata.uid;
    },
    { withinMs: MOVE_MS },
  );
}

/** Waits until the source node reports progress. */
export async function moveGoesOn(vmi: string, name: string): Promise<void> {
  await eventually(
    () => {
      const { progress, migrationUid } = machine.findVmi(vmi)?.status?.migrationState ?? {};
      const { uid } = findMigration(name)?.metadata ?? {};
      return uid !== undefined && migrationUid === uid && (progress?.dataProcessedBytes ?? 0) > 0;
    },
    { withinMs: MOVE_MS },
  );
}

/** Pid of a node's virt-handler, by the node's data directory. */
export function handlerOf(dataDir: string): number {
  const text = readFileSync(join(dataDir, "run", "virt-handler.json"), "utf8");
  const { pid } = JSON.parse(text) as { readonly pid: number }; // written by the supervisor
  return pid;
}

/** Pid of a guest's newest QEMU: during a migration the target's. */
export function newestQemu(vmi: string): number {
  const found = readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(`guest=default_${vmi},`))
    .toSorted((one, other) => startOf(one) - startOf(other));
  return Number(found.at(-1));
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

/** Start time in clock ticks after boot; 0 for an ended process. */
function startOf(pid: string): number {
  try {
    // The second field is a name that may contain blanks. Source: proc(5) "starttime".
    const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
    return Number(fields.split(" ")[19]);
  } catch {
    return 0;
  }
}
