// SPDX-License-Identifier: Apache-2.0
// patchbay start: starts a VM.
import type { Command } from "../../command.ts";
import { WAIT } from "../flags.ts";

/** Done when a new guest runs. */
export const start: Command = {
  name: "start",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Start a VM",
  flags: WAIT,
  run: async (context, input) => {
    const { requestPower } = await import("./request-power.ts");
    await requestPower(context, input, "start");
  },
};
