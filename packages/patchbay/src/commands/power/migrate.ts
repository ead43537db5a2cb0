// SPDX-License-Identifier: Apache-2.0
// patchbay migrate: asks that a VM's guest goes to another node.
import type { Command } from "../../command.ts";

/** Done when the migration is made; one that cannot be made says why. */
export const migrate: Command = {
  name: "migrate",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Ask that a running VM goes to another node",
  flags: [
    {
      flags: "--to <node>",
      description: "node by its label kubernetes.io/hostname (default: any other one that fits)",
    },
  ],
  run: async (context, input) => {
    const { requestMigration } = await import("./request-migration.ts");
    await requestMigration(context, input);
  },
};
