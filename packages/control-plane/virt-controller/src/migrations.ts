// SPDX-License-Identifier: Apache-2.0
// Cache of migrations. Changes of a migration enqueue its VMI.
import {
  isMigrationFinal,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { hasMigrationBegun } from "@patchbay/core/migration";
import { withTrimmedAnnotations } from "@patchbay/core/vm";
import type { Cache } from "@patchbay/core/interfaces";
import type { Logger } from "@patchbay/base";
import { createCache, type KubeClient, type StartableCache } from "@patchbay/kube";
import { BY_VMI, toVmiKey } from "./reconcilers/migration/observe.ts";

type Migration = VirtualMachineInstanceMigration;

export function createMigrationCache(
  client: KubeClient,
  logger: Logger,
): StartableCache<Migration> {
  const options = { trim: withTrimmedAnnotations<Migration> };
  return createCache(client.reflect(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, options), {
    indexes: { [BY_VMI]: (migration) => [toVmiKey(migration)] },
    logger,
  });
}

/** Enqueues the VMI of a changed migration. When a migration ends, enqueues the VMIs of waiting migrations too. */
export function enqueueMigratingVmis(
  migrations: Cache<Migration>,
  add: (key: string) => void,
): void {
  migrations.onChange((change) => {
    const migration = change.kind === "deleted" ? change.previous : change.current;
    add(toVmiKey(migration));
    const hasEnded = change.kind === "deleted" || isMigrationFinal(migration);
    const waiting = hasEnded ? migrations.list().filter((each) => !hasMigrationBegun(each)) : [];
    for (const each of waiting) add(toVmiKey(each));
  });
}
