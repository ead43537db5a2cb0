// SPDX-License-Identifier: Apache-2.0
// patchbay addinterface, set interface and removeinterface.
import type { Command, Context } from "../../command.ts";
import { hasFlag, textOption, type Input } from "../../input.ts";
import { DRY_RUN, IFACE_NAME, VMI, WAIT } from "../flags.ts";

/** Builds the request body of the subresource. Source: KubeVirt v1.0, AddInterfaceOptions. Patchbay adds `macAddress` and `model`. */
function buildBody(input: Input): Readonly<Record<string, unknown>> {
  const macAddress = textOption(input, "macAddress");
  const model = textOption(input, "model");
  return {
    networkAttachmentDefinitionName: textOption(input, "networkAttachmentDefinitionName"),
    name: textOption(input, "name"),
    ...(macAddress !== undefined && { macAddress }),
    ...(model !== undefined && { model }),
  };
}

async function runAddInterface(context: Context, input: Input): Promise<void> {
  const iface = textOption(input, "name") ?? "";
  const request = { subresource: "addinterface", iface, body: buildBody(input) } as const;
  if (hasFlag(input, "check")) {
    const { plugAndCheck } = await import("./check-iface.ts");
    await plugAndCheck(context, input, request);
    return;
  }
  if (hasFlag(input, "keep")) {
    const { AppError } = await import("@patchbay/base");
    throw new AppError("FLAG_INVALID", {
      flag: "--keep",
      reason: "it has no effect without --check",
    });
  }
  const { requestIface } = await import("./request-iface.ts");
  await requestIface(context, input, request);
}

/** Plugs an interface. With --wait, waits until the guest can use the interface. A stopped VM gets the interface at its next start. */
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
    {
      flags: "--mac-address <mac>",
      description: "MAC address (default: the one that the network assigns)",
    },
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
  run: runAddInterface,
};

/** Changes an interface. The guest's device keeps its MAC and its PCI address. */
export const setInterface: Command = {
  name: "set interface",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Change the network or the link of an interface; the guest keeps its device",
  flags: [
    { ...IFACE_NAME, values: "interfaces" },
    {
      flags: "--network <name>",
      description: "network to move to, NAME or NAMESPACE/NAME",
      values: "networks",
    },
    { flags: "--link <state>", description: "state of its link", choices: ["up", "down"] },
    DRY_RUN,
    ...WAIT,
  ],
  run: async (context, input) => {
    const { changeSettings } = await import("./change-settings.ts");
    await changeSettings(context, input);
  },
};

/** Unplugs an interface. With --wait, waits until the interface is removed from the guest, the pod and the specification. */
export const removeInterface: Command = {
  name: "removeinterface",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Unplug a network interface from a VM",
  flags: [{ ...IFACE_NAME, values: "interfaces" }, VMI, DRY_RUN, ...WAIT],
  run: async (context, input) => {
    const { requestIface } = await import("./request-iface.ts");
    const iface = textOption(input, "name") ?? "";
    const body = { name: iface };
    await requestIface(context, input, { subresource: "removeinterface", iface, body });
  },
};
