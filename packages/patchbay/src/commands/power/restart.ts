// SPDX-License-Identifier: Apache-2.0
// patchbay restart: ends a VM's guest and starts a new one.
import type { Command } from "../../command.ts";
import { WAIT } from "../flags.ts";

/** Done when another guest than before runs. */
export const restart: Command = {
  name: "restart",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Restart a VM",
  flags: WAIT,
  run: async (context, input) => {
    const { requestPower } = await import("./request-power.ts");
    await requestPower(context, input, "restart");
  },
};
