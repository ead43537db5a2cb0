// SPDX-License-Identifier: Apache-2.0
// Under which settings do guests move? Those of the cluster, with what a policy changes of them. Source: KubeVirt api/core/v1
// types.go MigrationConfiguration.
import type { Static } from "typebox";
import { quantity } from "../../fields/notation.ts";
import { Type } from "../../fields/schema.ts";
import { OPEN } from "../network.ts";

/** Source: KubeVirt MaxDowntimeMs, QEMU MAX_MIGRATE_DOWNTIME (2000 s). */
const DOWNTIME_MAX_MS = 2_000_000;

function seconds(description: string) {
  return Type.Optional(Type.Integer({ minimum: 1, description }));
}

function flag(description: string) {
  return Type.Optional(Type.Boolean({ description }));
}

/** What cannot be had is refused where it is asked for, not left out in silence. */
function refusedFlag(description: string) {
  return Type.Optional(Type.Unsafe<boolean>({ type: "boolean", enum: [false], description }));
}

/** What a policy may change. */
export const MIGRATION_SETTINGS = {
  allowAutoConverge: flag(
    "A guest that writes faster than its memory goes over is slowed down; false when absent.",
  ),
  allowPostCopy: refusedFlag(
    "Only false: launchers may not handle the page faults of their guests.",
  ),
  allowWorkloadDisruption: flag(
    "A guest that does not get there in time stands still for the rest of its way, for which it has as much time again; false when absent.",
  ),
  bandwidthPerMigration: Type.Optional(
    Type.Unsafe<string | number>(
      quantity("Most bytes in a second for each guest; 0, or absent: as fast as it goes."),
    ),
  ),
  maxDowntimeMs: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: DOWNTIME_MAX_MS,
      description: "Milliseconds that a guest may stand still; 900 when absent.",
    }),
  ),
  completionTimeoutPerGiB: seconds(
    "A guest may take so many seconds for each GiB of its memory; 150 when absent.",
  ),
};

/** Settings of the cluster, resolved too. */
export const MIGRATION_CONFIGURATION = Type.Object(
  {
    ...MIGRATION_SETTINGS,
    parallelMigrationsPerCluster: Type.Optional(
      Type.Integer({ minimum: 1, description: "Guests that move at once; 5 when absent." }),
    ),
    parallelOutboundMigrationsPerNode: Type.Optional(
      Type.Integer({ minimum: 1, description: "The same away from one node; 2 when absent." }),
    ),
    progressTimeout: seconds(
      "A move of which nothing comes over for so many seconds is ended; 150 when absent.",
    ),
    unsafeMigrationOverride: flag("Guests may move whose disks are not known to be safe."),
    disableTLS: refusedFlag("Only false: what guests have goes between nodes under TLS."),
  },
  OPEN,
);

/** Source: KubeVirt pkg/virt-config, defaults of migrations. */
const DEFAULTS = {
  allowAutoConverge: false,
  allowPostCopy: false,
  allowWorkloadDisruption: false,
  bandwidthPerMigration: "0",
  completionTimeoutPerGiB: 150,
  parallelMigrationsPerCluster: 5,
  parallelOutboundMigrationsPerNode: 2,
  progressTimeout: 150,
  maxDowntimeMs: 900,
  unsafeMigrationOverride: false,
  disableTLS: false,
} as const;

type Given = Static<typeof MIGRATION_CONFIGURATION>;
type Known = keyof typeof DEFAULTS;

/** All settings, none of them open. */
export type MigrationConfiguration = Given & {
  readonly [K in Known]-?: NonNullable<Given[K]>;
};

/** The cluster's settings, with what is changed of them. */
export function migrationConfigOf(
  cluster: Given | undefined,
  changed: Given = {},
): MigrationConfiguration {
  const given: Given = { ...cluster, ...changed };
  const keys = Object.keys(DEFAULTS) as readonly Known[];
  const known = Object.fromEntries(keys.map((key) => [key, given[key] ?? DEFAULTS[key]]));
  // Every member is of its own type: the schema has spoken.
  return known as MigrationConfiguration;
}
