// SPDX-License-Identifier: Apache-2.0
// Connection to the API server, and the VM or VMI that an argument names.
import { join } from "node:path";
import { AppError, type Clock, type Logger } from "@patchbay/base";
import { createKubeClient, loadKubeConfig, type KubeClient, type KubeConfig } from "@patchbay/kube";
import { createClock, createFiles } from "@patchbay/os";
import type { Files } from "@patchbay/core/interfaces";
import type { Context, Output } from "./command.ts";
import { escapeLine } from "./print/safe.ts";
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { argumentAt, hasFlag, type Input } from "./input.ts";

export interface Session {
  readonly client: KubeClient;
  readonly config: KubeConfig;
  readonly clock: Clock;
  readonly namespace: string;
  /** Whether the credentials are those of this pod's service account. Default: false. */
  readonly isPodAccount?: boolean;
}

/** Creates a logger that prints warnings and errors as warnings, each once, and discards other messages. */
export function createWarningLogger(err: Output): Logger {
  const ignore = (): void => undefined;
  const printed = new Set<string>();
  const warn: Logger["warn"] = (message, fields) => {
    const reason = fields?.["reason"];
    const text = typeof reason === "string" ? `${message}: ${reason}` : message;
    if (printed.has(text)) return;
    printed.add(text);
    err.write(`warning: ${escapeLine(text)}\n`);
  };
  const logger: Logger = { debug: ignore, info: ignore, warn, error: warn, child: () => logger };
  return logger;
}

async function findExisting(files: Files, paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) {
    if (await files.exists(path)) return path;
  }
  return undefined;
}

type ConfigContext = Pick<Context, "global" | "environment">;

function listKubeConfigs({ global, environment }: ConfigContext): readonly string[] {
  if (global.kubeconfig !== undefined) return [global.kubeconfig];
  return [
    ...(environment.kubeconfig?.split(":").filter((path) => path !== "") ?? []),
    join(global.dataDir, "kubeconfig"),
    ...(environment.home === undefined ? [] : [join(environment.home, ".kube", "config")]),
  ];
}

async function usesPodAccount(context: ConfigContext, files: Files): Promise<boolean> {
  const { global, environment } = context;
  if (environment.isPod !== true || global.kubeconfig !== undefined) return false;
  return (await findExisting(files, listKubeConfigs(context))) === undefined;
}

/**
 * Returns the path in --kubeconfig. If it is unset, returns the first existing file of $KUBECONFIG, the data directory and ~/.kube.
 * @throws AppError with KUBE_CONFIG_INVALID if none exists
 */
export async function chooseKubeConfig(context: ConfigContext, files: Files): Promise<string> {
  if (context.global.kubeconfig !== undefined) return context.global.kubeconfig;
  const candidates = listKubeConfigs(context);
  const existing = await findExisting(files, candidates);
  if (existing !== undefined) return existing;
  throw new AppError("KUBE_CONFIG_INVALID", {
    path: candidates.join(", "),
    reason: "there is no such file",
  });
}

/** Opens a session, calls `use`, and closes the session. */
export async function withSession(
  context: Context,
  use: (session: Session) => Promise<void>,
): Promise<void> {
  const files = createFiles();
  const isPodAccount = await usesPodAccount(context, files);
  const source = isPodAccount ? {} : { kubeconfig: await chooseKubeConfig(context, files) };
  const config = await loadKubeConfig(source);
  const clock = createClock();
  const client = createKubeClient(config, { logger: createWarningLogger(context.err), clock });
  const namespace = context.global.namespace ?? config.namespace ?? "default";
  try {
    await use({ client, config, clock, namespace, isPodAccount });
  } finally {
    await client.close();
  }
}

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

/** Finds the VM and its VMI, or only the VMI if `isVmi` is true. @throws AppError with KUBE_NOT_FOUND if neither is found */
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
  const target = { ...key, ...(vmi !== undefined && { vmi }) };
  if (vm !== undefined) return { ...target, kind: "virtualmachine", vm };
  if (vmi !== undefined) return { ...target, kind: "virtualmachineinstance" };
  throw new AppError("KUBE_NOT_FOUND", {
    resource: query.isVmi ? "virtualmachineinstance" : "virtualmachine",
    object: `${namespace}/${query.name}`,
  });
}

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

/** Like {@link withNamedTarget}, for the target that the first argument of the user's command names. */
export async function withTarget(
  context: Context,
  input: Input,
  use: (target: Target, session: Session) => Promise<void>,
): Promise<void> {
  const query = { name: argumentAt(input, 0), isVmi: hasFlag(input, "vmi") };
  await withNamedTarget(context, query, use);
}
