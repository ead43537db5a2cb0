// SPDX-License-Identifier: Apache-2.0
// patchbay addinterface: asks for an interface.
import type { Command, Context } from "../../command.ts";
import { hasFlag, textOption, type Input } from "../../input.ts";
import { DRY_RUN, IFACE_NAME, VMI, WAIT } from "../flags.ts";

/** Body of the subresource. Source: KubeVirt v1.0 AddInterfaceOptions; the fields beside are ours. */
function bodyOf(input: Input): Readonly<Record<string, unknown>> {
  const macAddress = textOption(input, "macAddress");
  const model = textOption(input, "model");
  return {
    networkAttachmentDefinitionName: textOption(input, "networkAttachmentDefinitionName"),
    name: textOption(input, "name"),
    ...(macAddress !== undefined && { macAddress }),
    ...(model !== undefined && { model }),
  };
}

async function run(context: Context, input: Input): Promise<void> {
  const iface = textOption(input, "name") ?? "";
  const request = { subresource: "addinterface", iface, body: bodyOf(input) } as const;
  if (hasFlag(input, "check")) {
    const { plugOnProbation } = await import("./check-iface.ts");
    await plugOnProbation(context, input, request);
    return;
  }
  if (hasFlag(input, "keep")) {
    const { AppError } = await import("@patchbay/core/errors");
    throw new AppError("FLAG_INVALID", { flag: "--keep", reason: "means nothing without --check" });
  }
  const { requestIface } = await import("./request-iface.ts");
  await requestIface(context, input, request);
}

/** Done when the guest can use it; a VM that does not run gets it with its next start. */
export const addInterface: Command = {
  name: "addinterface",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Plug a network interface into a VM, running or not",
  flags: [
    {
      flags: "--network-attachment-definition-name <name>",
      description: "network to join, NAME or NAMESPACE/NAME",
      required: true,
      values: "networks",
    },
    IFACE_NAME,
    { flags: "--mac-address <mac>", description: "MAC address (default: a generated one)" },
    { flags: "--model <model>", description: "device model (default: virtio)" },
    {
      flags: "--check",
      description:
        "wait, test the connection, and unplug again if a fault in the guest or its pod stops frames",
    },
    { flags: "--keep", description: "with --check: leave it in the VM in any case" },
    VMI,
    DRY_RUN,
    ...WAIT,
  ],
  run,
};
