// SPDX-License-Identifier: Apache-2.0
// patchbay migrate-cancel: has a VM stay where it is. Source: virtctl migrate-cancel.
import type { Command } from "../../command.ts";

/** Done when the migration is asked to end; its guest runs on where it is. */
export const migrateCancel: Command = {
  name: "migrate-cancel",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Cancel a VM's migration, if its guest has not left yet",
  flags: [],
  run: async (context, input) => {
    const { cancelMigration } = await import("./cancel-migration.ts");
    await cancelMigration(context, input);
  },
};
