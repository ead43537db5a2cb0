// SPDX-License-Identifier: Apache-2.0
// patchbay set interface: swaps the network of an interface, and takes its link up or down.
import type { Command } from "../../command.ts";
import { DRY_RUN, IFACE_NAME, WAIT } from "../flags.ts";

/** The guest's device stays, with its MAC and its PCI address. */
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
