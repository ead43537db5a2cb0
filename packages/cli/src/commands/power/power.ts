// SPDX-License-Identifier: Apache-2.0
// patchbay start, stop, restart, migrate, migrate-cancel and evacuate-cancel.
import type { Command } from "../../command.ts";
import { WAIT, WAIT_LONG } from "../flags.ts";

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

export const migrate: Command = {
  name: "migrate",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Move a running VM to another node",
  flags: [
    {
      flags: "--to <node>",
      description: "node by its label kubernetes.io/hostname (default: any other suitable node)",
    },
    ...WAIT_LONG,
  ],
  run: async (context, input) => {
    const { requestMigration } = await import("./request-power.ts");
    await requestMigration(context, input);
  },
};

/** Cancels a migration by deleting its object. The guest stays on its current node. */
export const migrateCancel: Command = {
  name: "migrate-cancel",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Cancel a VM's migration, unless its guest has already moved",
  flags: [],
  run: async (context, input) => {
    const { cancelMigration } = await import("./request-power.ts");
    await cancelMigration(context, input);
  },
};

/** Withdraws eviction requests, so that the VMs may stay on their node. Source of the syntax: virtctl evacuate-cancel. */
export const evacuateCancel: Command = {
  name: "evacuate-cancel",
  args: ["<kind>", "<name>"],
  summary: "Cancel the evacuation of a VM: vm NAME or vmi NAME; or of all VMs on a node: node NAME",
  flags: [
    {
      flags: "--migrate-cancel",
      description: "also cancel the VM's running migration",
      conflicts: ["dryRun"],
    },
    { flags: "--dry-run", description: "only show what would be canceled" },
  ],
  run: async (context, input) => {
    const { cancelEvacuations } = await import("./request-power.ts");
    await cancelEvacuations(context, input);
  },
};
