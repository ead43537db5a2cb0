// SPDX-License-Identifier: Apache-2.0
// How is a migration cancelled? By its deletion: its finalizer holds it until the guest is known to stay.
import { VIRTUAL_MACHINE_INSTANCE_MIGRATIONS } from "@patchbay/api";
import { AppError } from "@patchbay/core/errors";
import { cancellable } from "../../change/migration.ts";
import type { Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { withSession } from "../../session.ts";

/** @throws AppError with KUBE_NOT_FOUND where nothing moves */
export async function cancelMigration(context: Context, input: Input): Promise<void> {
  const vm = argumentAt(input, 0);
  await withSession(context, async ({ client, namespace }) => {
    const { signal } = context;
    const selection = { namespace, signal };
    const { items } = await client.store.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, selection);
    const [migration] = cancellable(items, vm);
    if (migration === undefined) {
      const object = `${namespace}/${vm}`;
      throw new AppError("KUBE_NOT_FOUND", { resource: "migration of virtualmachine", object });
    }
    const { name } = migration.metadata;
    await client.store.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, { namespace, name });
    await printResult(context, {
      table: () => `virtualmachine ${vm}: migration ${name} is being cancelled\n`,
      data: {
        kind: "virtualmachine",
        namespace,
        name: vm,
        action: "migrate-cancel",
        migration: name,
      },
      names: [`virtualmachineinstancemigration/${name}`],
    });
  });
}
