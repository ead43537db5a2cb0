// SPDX-License-Identifier: Apache-2.0
// What stories of migrations share: the nodes of the bench, a guest that moves, and how it is seen where it is.
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { eventually } from "@patchbay/support";
import type { VirtualMachineInstanceMigration } from "@patchbay/api";
import { machine } from "../machine.ts";
import { ROOT } from "../standalone.ts";

/** A move of a small guest under software emulation, with its pod, on a busy machine. */
export const MOVE_MS = 120_000;

const MIGRATIONS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancemigrations";

/** The node that is not the guest's. */
export function otherNode(vmi: string, nodes: readonly string[]): string {
  const here = machine.findVmi(vmi)?.status?.nodeName;
  return nodes.find((name) => name !== here) ?? "";
}

/** The migration of that name as it is now. */
export function findMigration(name: string): VirtualMachineInstanceMigration | undefined {
  // The API server validated it against the schema that the type is made of.
  return machine.read(`${MIGRATIONS}/${name}`) as VirtualMachineInstanceMigration | undefined;
}

/** Asks for a migration by a manifest. */
export function requestMigration(vmi: string, name: string): void {
  machine.apply({
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstanceMigration",
    metadata: { name, namespace: "default" },
    spec: { vmiName: vmi },
  });
}

/**
 * Cancels the migration of a VM that has not ended, by requests of virtctl's: those of the VM by label, of which it deletes one. Source: KubeVirt
 * pkg/virtctl/vm/migrate_cancel.go.
 */
export function cancelAsVirtctl(vm: string): void {
  const selector = encodeURIComponent(`kubevirt.io/vmi-name in (${vm})`);
  const path = `${MIGRATIONS}?labelSelector=${selector}`;
  // A list of the kind that was asked for.
  const { items } = machine.read(path) as {
    readonly items: readonly VirtualMachineInstanceMigration[];
  };
  const isFinal = (phase = ""): boolean => phase === "Succeeded" || phase === "Failed";
  const active = items.find(({ status }) => !isFinal(status?.phase));
  machine.kubectl("delete", "--raw", `${MIGRATIONS}/${active?.metadata.name ?? ""}`);
}

/** Moves a VM as a person does, who sees how it goes; what was printed. */
export async function moveByCommand(vm: string): Promise<string> {
  const program = join(ROOT, "node_modules/.bin/patchbay");
  const args = ["--data-dir", machine.dataDir, "migrate", vm, "--wait", "--timeout", "170s"];
  return (await promisify(execFile)(program, args)).stdout;
}

/** Waits for its end; the phase that it came to. */
export async function moveEnded(name: string): Promise<string> {
  return eventually(
    () => {
      const phase = findMigration(name)?.status?.phase;
      return phase === "Succeeded" || phase === "Failed" ? phase : undefined;
    },
    { withinMs: MOVE_MS },
  );
}

/** Names of the launcher pods of a VMI that are there. */
export function launchersOf(vmi: string): readonly string[] {
  return machine.list("pod", `vm.kubevirt.io/name=${vmi}`).map(({ metadata }) => metadata.name);
}

/** A policy under which guests with that label go so slowly that there is time for something to happen. */
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

/** Waits until the target's node has told where it takes the guest. */
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

/** Waits until its guest is on its way, of which the source's node has told something. */
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

/** Process id of the virt-handler of a node, by its data directory. */
export function handlerOf(dataDir: string): number {
  const text = readFileSync(join(dataDir, "run", "virt-handler.json"), "utf8");
  const { pid } = JSON.parse(text) as { readonly pid: number }; // as the supervisor writes it
  return pid;
}

/** Process id of the QEMU of a guest that was started last: of one that moves, the one into which it comes. */
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
    return ""; // it has ended
  }
}

/** Clock ticks after the boot; what has ended began never. */
function startOf(pid: string): number {
  try {
    // The second field is a name that may have blanks. Source: proc(5) "starttime".
    const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
    return Number(fields.split(" ")[19]);
  } catch {
    return 0;
  }
}
