// SPDX-License-Identifier: Apache-2.0
// patchbay migrate: asks that a VM's guest goes to another node.
import type { Command } from "../../command.ts";
import { WAIT_LONG } from "../flags.ts";

/** Done when the guest runs there; one that cannot be made says why. */
export const migrate: Command = {
  name: "migrate",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Move a running VM to another node",
  flags: [
    {
      flags: "--to <node>",
      description: "node by its label kubernetes.io/hostname (default: any other one that fits)",
    },
    ...WAIT_LONG,
  ],
  run: async (context, input) => {
    const { requestMigration } = await import("./request-migration.ts");
    await requestMigration(context, input);
  },
};
