// SPDX-License-Identifier: Apache-2.0
// Requests the start, stop, restart or migration of a VM.
import { AppError } from "@patchbay/base";
import { requestChange } from "../../change/request.ts";
import { findVmiStage, type VmiState, judgeStart, judgeStop } from "../../change/progress.ts";
import type { Context } from "../../command.ts";
import { type Input, argumentAt, textOption } from "../../input.ts";
import { withTarget, withSession } from "../../session.ts";
import {
  findMigrationStage,
  findMigrationVerdict,
  findCancellable,
} from "../../change/migration.ts";
import { VIRTUAL_MACHINE_INSTANCE_MIGRATIONS } from "@patchbay/api";
import { printResult } from "../../print/output.ts";

const VERDICTS = { start: judgeStart, stop: judgeStop, restart: judgeStart } as const;

export async function requestPower(
  context: Context,
  input: Input,
  subresource: keyof typeof VERDICTS,
): Promise<void> {
  await withTarget(context, input, async (target, session) => {
    if (target.vm === undefined) {
      const object = `${target.namespace}/${target.name}`;
      throw new AppError("KUBE_NOT_FOUND", { resource: "virtualmachine", object });
    }
    const change = {
      target,
      action: subresource,
      request: { kind: "subresource", name: subresource, body: {} } as const,
      what: subresource,
      inspectCommand: `kubectl describe vm,vmi ${target.name} -n ${target.namespace}`,
      fields: {},
      findStage: ({ vmi }: VmiState) => findVmiStage(vmi),
      findVerdict: VERDICTS[subresource],
    };
    await requestChange(session, context, { change, input });
  });
}

/** Label with a node's host name. Source: Kubernetes well-known labels. */
const HOST_NAME_LABEL = "kubernetes.io/hostname";

/** Requests a migration. @throws AppError with KUBE_REFUSED if the VM cannot migrate */
export async function requestMigration(context: Context, input: Input): Promise<void> {
  const name = argumentAt(input, 0);
  const node = textOption(input, "to");
  const body = node === undefined ? {} : { addedNodeSelector: { [HOST_NAME_LABEL]: node } };
  await withSession(context, async (session) => {
    const { namespace } = session;
    const change = {
      target: { kind: "virtualmachine", namespace, name },
      action: "migrate",
      request: { kind: "subresource", name: "migrate", body },
      what: "migration",
      inspectCommand: `kubectl describe vmi,vmim -n ${namespace}`,
      fields: {},
      hasMigrations: true,
      findStage: findMigrationStage,
      findVerdict: findMigrationVerdict,
    } as const;
    await requestChange(session, context, { change, input });
  });
}

/** Cancels the migration. @throws AppError with KUBE_NOT_FOUND if the VM has no running migration */
export async function cancelMigration(context: Context, input: Input): Promise<void> {
  const vm = argumentAt(input, 0);
  await withSession(context, async ({ client, namespace }) => {
    const { signal } = context;
    const selection = { namespace, signal };
    const { items } = await client.store.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, selection);
    const [migration] = findCancellable(items, vm);
    if (migration === undefined) {
      const object = `${namespace}/${vm}`;
      throw new AppError("KUBE_NOT_FOUND", { resource: "migration of virtualmachine", object });
    }
    const { name } = migration.metadata;
    await client.store.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, { namespace, name });
    await printResult(context, {
      table: () => `virtualmachine ${vm}: migration ${name} is being canceled\n`,
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
