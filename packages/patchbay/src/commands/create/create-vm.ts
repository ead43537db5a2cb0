// SPDX-License-Identifier: Apache-2.0
// patchbay create vm: a VM that boots a disk from an image, as a manifest or in the API server.
import type { KubeObject } from "@patchbay/api";
import type { Command, Context } from "../../command.ts";
import type { Input } from "../../input.ts";
import { printManifest } from "../../print/manifest.ts";
import { printResult } from "../../print/output.ts";
import type { VmObjects } from "./vm-objects.ts";

function listOf({ claims, vm, secret }: VmObjects): readonly KubeObject[] {
  return [...claims, secret, vm];
}

function titleOf({ kind, metadata }: KubeObject): string {
  return `${kind.toLowerCase()}/${metadata.name}`;
}

/** What a person does next. */
function nextSteps({ claims, vm }: VmObjects): string {
  const { name } = vm.metadata;
  const isStopped = vm.spec.runStrategy === "Halted";
  return [
    `${isStopped ? "start it with: patchbay start" : "see how it comes up with: kubectl get vm"} ${name}`,
    `log in on its console, which shows the user and password: patchbay console ${name}`,
    claims.length === 0
      ? "its disk is created anew at each start; --disk adds one that is kept"
      : `its first disk is created anew at each start; the other disks are kept`,
    "",
  ].join("\n");
}

async function run(context: Context, input: Input): Promise<void> {
  const { createFiles } = await import("@patchbay/os");
  const { withSession } = await import("../../session.ts");
  const { createObjects } = await import("./apply.ts");
  const { readOrder } = await import("./read-order.ts");
  const { vmObjectsOf } = await import("./vm-objects.ts");
  const { namespace, output } = context.global;
  const objectsIn = async (where: string | undefined): Promise<VmObjects> =>
    vmObjectsOf(await readOrder(createFiles(), input, where));
  if (output === "yaml" || output === "json") {
    await printManifest(context, listOf(await objectsIn(namespace)));
    return;
  }
  await withSession(context, async (session) => {
    const objects = await objectsIn(session.namespace);
    await createObjects(session.client.store, objects, { signal: context.signal });
    const names = listOf(objects).map(titleOf);
    await printResult(context, {
      table: () => names.map((name) => `${name} created\n`).join("") + nextSteps(objects),
      data: listOf(objects),
      names,
    });
  });
}

/** With `-o yaml` or `-o json` nothing is asked of a server. */
export const createVm: Command = {
  name: "create vm",
  args: ["<name>"],
  summary: "Create a VM that boots a disk from an image; -o yaml prints its manifest instead",
  flags: [
    {
      flags: "--image <image>",
      description: "image with the disk: one that patchbay image list shows, or one in a registry",
      required: true,
      values: "images",
    },
    { flags: "--memory <amount>", description: "memory", kind: "quantity", fallback: "1Gi" },
    { flags: "--cpus <number>", description: "virtual CPUs", kind: "count", fallback: "1" },
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
      flags: "--user <name>",
      description: "user who can log in, with a generated password, where there is no --user-data",
      fallback: "admin",
    },
    {
      flags: "--ssh-key <file>",
      description: "file with SSH public keys that may log in; may be repeated",
      values: "files",
      isRepeatable: true,
    },
    { flags: "--user-data <file>", description: "cloud-init user data", values: "files" },
    { flags: "--network-data <file>", description: "cloud-init network data", values: "files" },
    { flags: "--stopped", description: "do not start the VM yet" },
  ],
  run,
};
