// SPDX-License-Identifier: Apache-2.0
// Requests the start, stop, restart or migration of a VM, or the end of a migration or an evacuation.
import { AppError } from "@patchbay/base";
import type { ObjectKey } from "@patchbay/core/interfaces";
import { requestChange, statusMessage } from "../../change/request.ts";
import { findVmiStage, type VmiState, judgeStart, judgeStop } from "../../change/progress.ts";
import type { Context } from "../../command.ts";
import { type Input, argumentAt, hasFlag, textOption } from "../../input.ts";
import {
  subresourcePath,
  withTarget,
  withSession,
  type Session,
  type Target,
} from "../../session.ts";
import {
  findMigrationStage,
  findMigrationVerdict,
  findCancellable,
} from "../../change/migration.ts";
import {
  NODES,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
} from "@patchbay/api";
import { printResult } from "../../print/output.ts";
import { escapeLine } from "../../print/safe.ts";

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

/** @throws AppError with KUBE_REFUSED if the VM cannot migrate */
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

/** Deletes the VM's unfinished migration and returns its name. Returns undefined if there is no such migration. */
async function deleteMigration(
  { client }: Session,
  { namespace = "", name: vm }: ObjectKey,
  { signal }: Context,
): Promise<string | undefined> {
  const selection = { namespace, signal };
  const { items } = await client.store.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, selection);
  const [migration] = findCancellable(items, vm);
  if (migration === undefined) return undefined;
  const { name } = migration.metadata;
  await client.store.delete(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, { namespace, name });
  return name;
}

/** @throws AppError with KUBE_NOT_FOUND if the VM has no running migration */
export async function cancelMigration(context: Context, input: Input): Promise<void> {
  const vm = argumentAt(input, 0);
  await withSession(context, async (session) => {
    const { namespace } = session;
    const name = await deleteMigration(session, { namespace, name: vm }, context);
    if (name === undefined) {
      const object = `${namespace}/${vm}`;
      throw new AppError("KUBE_NOT_FOUND", { resource: "migration of virtualmachine", object });
    }
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

const TIMEOUT_MS = 30_000;

const EVACUATION_KINDS = new Map<string, Target["kind"] | "node">([
  ...["vm", "vms", "virtualmachine", "virtualmachines"].map(
    (alias) => [alias, "virtualmachine"] as const,
  ),
  ...["vmi", "vmis", "virtualmachineinstance", "virtualmachineinstances"].map(
    (alias) => [alias, "virtualmachineinstance"] as const,
  ),
  ...["node", "nodes", "no"].map((alias) => [alias, "node"] as const),
]);

/** Lists the objects whose evacuation is to be canceled. For a node, these are the VMIs that must leave the node. */
async function listEvacuated(
  { client, namespace }: Session,
  input: Input,
  { signal }: Context,
): Promise<readonly Target[]> {
  const [alias, name] = [argumentAt(input, 0), argumentAt(input, 1)];
  const kind = EVACUATION_KINDS.get(alias.toLowerCase());
  if (kind === undefined) {
    const reason = `${JSON.stringify(alias)} is not a supported kind; use vm NAME, vmi NAME or node NAME`;
    throw new AppError("FLAG_INVALID", { flag: "<kind>", reason });
  }
  if (kind !== "node") return [{ kind, namespace, name }];
  if ((await client.store.find(NODES, { name }, { signal })) === undefined)
    throw new AppError("KUBE_NOT_FOUND", { resource: "node", object: name });
  const { items } = await client.store.list(VIRTUAL_MACHINE_INSTANCES, { signal });
  return items
    .filter(({ status }) => status?.evacuationNodeName === name)
    .map(({ metadata }) => ({
      kind: "virtualmachineinstance",
      namespace: metadata.namespace ?? "",
      name: metadata.name,
    }));
}

interface Cancellation {
  readonly kind: Target["kind"];
  readonly namespace: string;
  readonly name: string;
  readonly message: string;
}

async function cancelEvacuation(
  session: Session,
  target: Target,
  { context, input }: { readonly context: Context; readonly input: Input },
): Promise<Cancellation> {
  const { kind, namespace, name } = target;
  const { text } = await session.client.requestRaw({
    method: "PUT",
    path: subresourcePath(target, "evacuate", "cancel"),
    body: {},
    ...(hasFlag(input, "dryRun") && { query: { dryRun: "All" } }),
    timeoutMs: TIMEOUT_MS,
    signal: context.signal,
  });
  // KubeVirt's virt-api sends a response without a body.
  const answered = text === "" ? undefined : statusMessage(text);
  const canceled = answered ?? `${kind} ${namespace}/${name}: the evacuation was canceled`;
  if (!hasFlag(input, "migrateCancel")) return { kind, namespace, name, message: canceled };
  const migration = await deleteMigration(session, { namespace, name }, context);
  const end =
    migration === undefined ? "no migration runs" : `migration ${migration} is being canceled`;
  return { kind, namespace, name, message: `${canceled}; ${end}` };
}

/** Cancels evacuations. Continues after a failure, so that one VMI of a node does not block the other VMIs. @throws the first failure */
export async function cancelEvacuations(context: Context, input: Input): Promise<void> {
  await withSession(context, async (session) => {
    const targets = await listEvacuated(session, input, context);
    const results = await Promise.allSettled(
      targets.map((target) => cancelEvacuation(session, target, { context, input })),
    );
    const canceled = results.flatMap((result) =>
      result.status === "fulfilled" ? [result.value] : [],
    );
    const prefix = hasFlag(input, "dryRun") ? "dry run: " : "";
    const lines =
      targets.length === 0
        ? [`no VM is being evacuated from node ${argumentAt(input, 1)}`]
        : canceled.map(({ message }) => `${prefix}${message}`);
    await printResult(context, {
      table: () => lines.map((line) => `${escapeLine(line)}\n`).join(""),
      data: canceled,
      names: canceled.map(({ kind, name }) => `${kind}/${name}`),
    });
    for (const result of results) if (result.status === "rejected") throw result.reason;
  });
}
