// SPDX-License-Identifier: Apache-2.0
// The VM or VMI that a command's argument names.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { Context } from "./command.ts";
import { argumentAt, hasFlag, type Input } from "./input.ts";
import { withSession, type Session } from "./session.ts";

export interface Target {
  readonly kind: "virtualmachine" | "virtualmachineinstance";
  readonly namespace: string;
  readonly name: string;
  readonly vm?: VirtualMachine;
  readonly vmi?: VirtualMachineInstance;
}

const RESOURCES = {
  virtualmachine: VIRTUAL_MACHINES.resource,
  virtualmachineinstance: VIRTUAL_MACHINE_INSTANCES.resource,
} as const;

/** Source: KubeVirt v1.0 virt-api/api.go. */
export function subresourcePath(target: Target, ...subresource: readonly string[]): string {
  const { kind, namespace, name } = target;
  const parts = ["namespaces", namespace, RESOURCES[kind], name, ...subresource];
  return `/apis/subresources.kubevirt.io/v1/${parts.map(encodeURIComponent).join("/")}`;
}

export function objectPath({ kind, namespace, name }: Target): string {
  const parts = ["namespaces", namespace, RESOURCES[kind], name];
  return `/apis/kubevirt.io/v1/${parts.map(encodeURIComponent).join("/")}`;
}

export function printTarget(target: Target): string {
  return `${target.kind} ${target.name}`;
}

export interface TargetQuery {
  readonly name: string;
  readonly isVmi: boolean;
}

/** The VM with this name and its VMI, or the VMI if there is no such VM. @throws AppError with KUBE_NOT_FOUND */
export async function findTarget(
  session: Session,
  query: TargetQuery,
  context: Pick<Context, "signal">,
): Promise<Target> {
  const { store } = session.client;
  const { namespace } = session;
  const key = { namespace, name: query.name };
  const { signal } = context;
  const [vm, vmi] = await Promise.all([
    query.isVmi ? undefined : store.find(VIRTUAL_MACHINES, key, { signal }),
    store.find(VIRTUAL_MACHINE_INSTANCES, key, { signal }),
  ]);
  const found = { ...key, ...(vmi !== undefined && { vmi }) };
  if (vm !== undefined) return { ...found, kind: "virtualmachine", vm };
  if (vmi !== undefined) return { ...found, kind: "virtualmachineinstance" };
  throw new AppError("KUBE_NOT_FOUND", {
    resource: query.isVmi ? "virtualmachineinstance" : "virtualmachine",
    object: `${namespace}/${query.name}`,
  });
}

/** Calls `use` with the target and a connection, which it closes afterwards. */
export async function withNamedTarget(
  context: Context,
  { namespace, ...query }: TargetQuery & { readonly namespace?: string },
  use: (target: Target, session: Session) => Promise<void>,
): Promise<void> {
  await withSession(context, async (defaultSession) => {
    const session = namespace === undefined ? defaultSession : { ...defaultSession, namespace };
    await use(await findTarget(session, query, context), session);
  });
}

/** Calls `use` with the target of the first argument and a connection, which it closes afterwards. */
export async function withTarget(
  context: Context,
  input: Input,
  use: (target: Target, session: Session) => Promise<void>,
): Promise<void> {
  const query = { name: argumentAt(input, 0), isVmi: hasFlag(input, "vmi") };
  await withNamedTarget(context, query, use);
}
