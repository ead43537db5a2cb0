// SPDX-License-Identifier: Apache-2.0
// Which variables does a container have? Pure: what they refer to has been read before.
import type { Container, EnvFromSource, EnvVar, Pod } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import { expand, ROOM, type ProgramRoom } from "./expansion.ts";
import { fieldOf, resourceFieldOf } from "./fields.ts";
import type { NodeFacts } from "./node-facts.ts";

/** The ConfigMaps and Secrets of the pod's namespace that it names; one that is not there is not in the map. */
export interface EnvSources {
  readonly configMaps: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly secrets: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

/** Names that a container's variables refer to. */
export interface EnvReferences {
  readonly configMaps: readonly string[];
  readonly secrets: readonly string[];
}

/** What the variables are made for: the pod in its sandbox. */
export interface EnvContext {
  readonly pod: Pod;
  readonly node: NodeFacts;
  /** Addresses of the sandbox. */
  readonly podIps: readonly string[];
  readonly sources: EnvSources;
}

/** The variables so far, and what room is left for more. */
interface Variables {
  readonly values: Map<string, string>;
  readonly room: ProgramRoom;
}

/** Source: Kubernetes validation IsEnvVarName, relaxed: what `execve` takes. */
const NAME = /^[^=\0]+$/;

function present(names: readonly (string | undefined)[]): readonly string[] {
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

/** What has to be read before the variables can be made. */
export function envReferencesOf({ env = [], envFrom = [] }: Container): EnvReferences {
  return {
    configMaps: present([
      ...envFrom.map(({ configMapRef }) => configMapRef?.name),
      ...env.map(({ valueFrom }) => valueFrom?.configMapKeyRef?.name),
    ]),
    secrets: present([
      ...envFrom.map(({ secretRef }) => secretRef?.name),
      ...env.map(({ valueFrom }) => valueFrom?.secretKeyRef?.name),
    ]),
  };
}

function refuse(container: Container, reason: string): AppError {
  return new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
}

/** Throws where no program could be given as much; no value is one that is too long. */
function set(
  variables: Variables,
  container: Container,
  at: readonly [string, string | undefined],
): void {
  const [name, value] = at;
  if (value === undefined || !variables.room.take(`${name}=${value}`)) {
    throw refuse(
      container,
      `with variable ${name} its environment is larger than a program can be given: ${ROOM}`,
    );
  }
  variables.values.set(name, value);
}

interface Reference {
  readonly kind: "configMap" | "secret";
  readonly name?: string;
  readonly key: string;
  readonly optional?: boolean;
}

function dataOf(
  sources: EnvSources,
  { kind, name = "" }: Pick<Reference, "kind" | "name">,
): Readonly<Record<string, string>> | undefined {
  return (kind === "configMap" ? sources.configMaps : sources.secrets).get(name);
}

function referredValue(
  container: Container,
  sources: EnvSources,
  reference: Reference,
): string | undefined {
  const { kind, name = "", key, optional } = reference;
  const data = dataOf(sources, reference);
  const value = data !== undefined && Object.hasOwn(data, key) ? data[key] : undefined;
  if (value !== undefined || optional === true) return value;
  const what =
    data === undefined ? `${kind} ${name} does not exist` : `${kind} ${name} has no ${key}`;
  throw refuse(container, what);
}

function sourceOf({
  configMapKeyRef,
  secretKeyRef,
}: NonNullable<EnvVar["valueFrom"]>): Reference | undefined {
  if (configMapKeyRef !== undefined) return { kind: "configMap", ...configMapKeyRef };
  return secretKeyRef === undefined ? undefined : { kind: "secret", ...secretKeyRef };
}

function valueFrom(
  container: Container,
  from: NonNullable<EnvVar["valueFrom"]>,
  context: EnvContext,
): string | undefined {
  const reference = sourceOf(from);
  if (reference !== undefined) return referredValue(container, context.sources, reference);
  if (from.resourceFieldRef !== undefined) {
    return resourceFieldOf(context.pod, from.resourceFieldRef, container);
  }
  const path = from.fieldRef?.fieldPath ?? "";
  const value = fieldOf(context.pod, path, context);
  if (value === undefined) throw refuse(container, `fieldPath ${path} is not supported`);
  return value;
}

function referenceIn({
  configMapRef,
  secretRef,
}: EnvFromSource): Omit<Reference, "key"> | undefined {
  if (configMapRef !== undefined) return { kind: "configMap", ...configMapRef };
  return secretRef === undefined ? undefined : { kind: "secret", ...secretRef };
}

function addAll(
  variables: Variables,
  container: Container,
  at: readonly [EnvFromSource, EnvSources],
): void {
  const [from, sources] = at;
  const reference = referenceIn(from);
  if (reference === undefined) return;
  const { kind, name = "", optional } = reference;
  const data = dataOf(sources, reference);
  if (data === undefined && optional !== true) {
    throw refuse(container, `${kind} ${name} does not exist`);
  }
  for (const [key, value] of Object.entries(data ?? {})) {
    const variable = `${from.prefix ?? ""}${key}`;
    if (NAME.test(variable)) set(variables, container, [variable, value]);
  }
}

function addOne(
  variables: Variables,
  container: Container,
  at: readonly [EnvVar, EnvContext],
): void {
  const [{ name, value, valueFrom: from }, context] = at;
  if (!NAME.test(name))
    throw refuse(container, `${JSON.stringify(name)} is not a valid variable name`);
  if (from === undefined) {
    set(variables, container, [name, expand(value ?? "", variables.values)]);
    return;
  }
  const found = valueFrom(container, from, context);
  if (found !== undefined) set(variables, container, [name, found]);
}

/**
 * The variables, in the order in which they are set: the API server's address, `envFrom`, `env`.
 * @throws AppError with RUNTIME_CONTAINER_REFUSED when something that they name is missing, or there is too much
 */
export function environmentOf(
  container: Container,
  context: EnvContext,
  room: ProgramRoom,
): ReadonlyMap<string, string> {
  const { host, port } = context.node.apiServer ?? {};
  const variables: Variables = { values: new Map(), room };
  if (host !== undefined && port !== undefined) {
    set(variables, container, ["KUBERNETES_SERVICE_HOST", host]);
    set(variables, container, ["KUBERNETES_SERVICE_PORT", port]);
    set(variables, container, ["KUBERNETES_SERVICE_PORT_HTTPS", port]);
  }
  for (const from of container.envFrom ?? []) addAll(variables, container, [from, context.sources]);
  for (const one of container.env ?? []) addOne(variables, container, [one, context]);
  return variables.values;
}

/**
 * A command or arguments with their variables.
 * @throws AppError with RUNTIME_CONTAINER_REFUSED when there is too much
 */
export function argumentsOf(
  container: Container,
  texts: readonly string[],
  given: { readonly variables: ReadonlyMap<string, string>; readonly room: ProgramRoom },
): readonly string[] {
  return texts.map((text) => {
    const expanded = expand(text, given.variables);
    if (expanded !== undefined && given.room.take(expanded)) return expanded;
    throw refuse(container, `its command is larger than a program can be given: ${ROOM}`);
  });
}
