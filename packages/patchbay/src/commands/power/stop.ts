// SPDX-License-Identifier: Apache-2.0
// patchbay stop: stops a VM.
import type { Command } from "../../command.ts";
import { WAIT } from "../flags.ts";

/** Done when nothing of the guest is left. */
export const stop: Command = {
  name: "stop",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Stop a VM; with --wait, return when it has stopped",
  flags: WAIT,
  run: async (context, input) => {
    const { requestPower } = await import("./request-power.ts");
    await requestPower(context, input, "stop");
  },
};
