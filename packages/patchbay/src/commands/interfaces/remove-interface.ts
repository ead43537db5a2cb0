// SPDX-License-Identifier: Apache-2.0
// patchbay removeinterface: asks for the end of an interface.
import type { Command } from "../../command.ts";
import { textOption } from "../../input.ts";
import { DRY_RUN, IFACE_NAME, VMI, WAIT } from "../flags.ts";

/** Done when nothing is left of it: in the guest, in the pod, in the spec. */
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
