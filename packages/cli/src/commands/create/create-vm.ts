// SPDX-License-Identifier: Apache-2.0
// patchbay create vm: creates a VM that boots from an image or a claim, or prints its manifest.
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Context, Command } from "../../command.ts";
import type { Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import type { VmObjects } from "@patchbay/core/new-vm";

async function printManifest(
  { out, global }: Pick<Context, "out" | "global">,
  objects: readonly KubeObject[],
): Promise<void> {
  if (global.output === "json") {
    const list = { apiVersion: "v1", kind: "List", items: objects };
    out.write(`${JSON.stringify(list, undefined, 2)}\n`);
    return;
  }
  const { stringify } = await import("yaml");
  // For easy editing, the YAML has no aliases, and lines of user data are not folded.
  const options = { aliasDuplicateObjects: false, blockQuote: "literal", lineWidth: 0 } as const;
  out.write(objects.map((object) => stringify(object, options)).join("---\n"));
}

function titleOf({ kind, metadata }: KubeObject): string {
  return `${kind.toLowerCase()}/${metadata.name}`;
}

export function describeDisks({ vm }: Pick<VmObjects, "vm">): string {
  const { volumes = [] } = vm.spec.template.spec;
  const isKept = volumes.some((volume) => volume.persistentVolumeClaim ?? volume.dataVolume);
  const filled = volumes.flatMap(({ name, dataVolume }) => (dataVolume ? [name] : []));
  const recreated = volumes.flatMap(({ name, containerDisk }) => (containerDisk ? [name] : []));
  if (filled.length > 0) {
    return `its disk ${filled.join(", ")} is filled once, before the first start, and deleted with the VM: kubectl get dv`;
  }
  if (recreated.length === 0) return "its disks are kept";
  const which =
    recreated.length === 1
      ? `its disk ${recreated.join()} is`
      : `its disks ${recreated.join(", ")} are`;
  const others = isKept ? "the others are kept" : "--root SIZE keeps it";
  return `${which} created anew at each start; ${others}`;
}

function nextSteps(objects: VmObjects): string {
  const { metadata, spec } = objects.vm;
  const isStopped = spec.runStrategy === "Halted";
  return [
    `${isStopped ? "start it with: patchbay start" : "watch it start with: kubectl get vm"} ${metadata.name}`,
    `log in on its console, which shows the user and password: patchbay console ${metadata.name}`,
    describeDisks(objects),
    "",
  ].join("\n");
}

async function run(context: Context, input: Input): Promise<void> {
  const { createFiles } = await import("@patchbay/os");
  const { userDataProblem } = await import("../../cloud-init/user-data.ts");
  const { withSession } = await import("../../session.ts");
  const { createObjects } = await import("./apply.ts");
  const { readNewVm } = await import("./read-new-vm.ts");
  const { createVmObjects, listVmObjects } = await import("@patchbay/core/new-vm");
  const { namespace, output } = context.global;
  const createObjectsIn = async (targetNamespace: string | undefined): Promise<VmObjects> => {
    const newVm = await readNewVm(createFiles(), input, targetNamespace);
    const problem = userDataProblem(newVm.userData);
    if (problem !== undefined) context.err.write(`warning: ${problem}\n`);
    return createVmObjects(newVm);
  };
  if (output === "yaml" || output === "json") {
    await printManifest(context, listVmObjects(await createObjectsIn(namespace)));
    return;
  }
  await withSession(context, async (session) => {
    const objects = await createObjectsIn(session.namespace);
    await createObjects(session.client.store, objects, { signal: context.signal });
    const names = listVmObjects(objects).map(titleOf);
    await printResult(context, {
      table: () => names.map((name) => `${name} created\n`).join("") + nextSteps(objects),
      data: listVmObjects(objects),
      names,
    });
  });
}

export const createVm: Command = {
  name: "create vm",
  args: ["<name>"],
  summary:
    "Create a VM that boots a disk from an image or a claim; -o yaml prints its manifest instead",
  flags: [
    {
      flags: "--image <image>",
      description: "image with the disk, from patchbay image list or a registry",
      values: "images",
    },
    {
      flags: "--root <size>",
      description:
        "size of a disk that is filled once from --image, kept when the VM restarts, and deleted with the VM (default: a disk that is created anew at each start)",
      kind: "quantity",
    },
    {
      flags: "--volume-containerdisk <params>",
      description:
        "a disk from an image, in virtctl's notation, src:IMAGE[,name:NAME][,bootorder:NUMBER]; may be repeated",
      isRepeatable: true,
    },
    {
      flags: "--volume-pvc <params>",
      description:
        "a disk on an existing claim, src:CLAIM[,name:NAME][,bootorder:NUMBER]; may be repeated",
      isRepeatable: true,
    },
    { flags: "--memory <amount>", description: "memory", kind: "quantity", fallback: "1Gi" },
    { flags: "--cpus <number>", description: "virtual CPUs", kind: "count", fallback: "1" },
    {
      flags: "--instancetype <name>",
      description:
        "instancetype of the VM: NAME of a cluster instancetype, or virtualmachineinstancetype/NAME",
      conflicts: ["memory", "cpus", "inferInstancetype"],
    },
    {
      flags: "--infer-instancetype",
      description: "infer the instancetype from labels of the boot claim",
      conflicts: ["memory", "cpus"],
    },
    {
      flags: "--preference <name>",
      description:
        "preference of the VM: NAME of a cluster preference, or virtualmachinepreference/NAME",
      conflicts: ["inferPreference"],
    },
    {
      flags: "--infer-preference",
      description: "infer the preference from labels of the boot claim",
    },
    {
      flags: "--disk <size>",
      description:
        "size of an additional, empty disk, kept when the VM restarts or is deleted; may be repeated",
      kind: "quantity",
      isRepeatable: true,
    },
    {
      flags: "--network <name>",
      description: "an additional network to join, NAME or NAMESPACE/NAME; may be repeated",
      values: "networks",
      isRepeatable: true,
    },
    {
      flags: "--mac <mac>",
      description:
        "MAC address of the next network's interface, or NAME=MAC of interface NAME; may be repeated (default: generated)",
      isRepeatable: true,
    },
    {
      flags: "--user <name>",
      description: "user who can log in with a generated password; unused with --user-data",
      fallback: "admin",
    },
    {
      flags: "--ssh-key <file>",
      description: "file with SSH public keys that may log in; may be repeated",
      values: "files",
      isRepeatable: true,
    },
    { flags: "--user-data <file>", description: "cloud-init user data", values: "files" },
    {
      flags: "--network-data <file>",
      description: "cloud-init network data (default with --network: DHCP on each NIC by its MAC)",
      values: "files",
    },
    { flags: "--stopped", description: "do not start the VM yet" },
  ],
  run,
};
