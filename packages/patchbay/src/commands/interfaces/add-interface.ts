// SPDX-License-Identifier: Apache-2.0
// patchbay addinterface: asks for an interface.
import type { Command } from "../../command.ts";
import { textOption, type Input } from "../../input.ts";
import { IFACE_NAME, VMI, WAIT } from "../flags.ts";

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
    VMI,
    ...WAIT,
  ],
  run: async (context, input) => {
    const { requestIface } = await import("./request-iface.ts");
    const iface = textOption(input, "name") ?? "";
    await requestIface(context, input, { subresource: "addinterface", iface, body: bodyOf(input) });
  },
};
