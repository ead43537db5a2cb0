// SPDX-License-Identifier: Apache-2.0
// Environment variables and arguments of a container. Pure: the objects that they refer to are read before.
import type { Container, EnvFromSource, EnvVar, Pod } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { findField, findResourceField } from "./fields.ts";
import type { NodeFacts } from "./node-facts.ts";

/** Source: linux/binfmts.h, MAX_ARG_STRLEN with its zero byte. */
const TEXT_MAX = 131_071;
/** Source: execve(2): a quarter of the stack's limit, which is 8 MiB. */
const TOTAL_MAX = 2 * 1024 * 1024;

const SIZE_LIMITS = `${String(TEXT_MAX)} bytes in one, ${String(TOTAL_MAX / 2 ** 20)} MiB in all`;

const REFERENCE = /\$(\$|\(([^()]*)\))/g;

/** `$$` is a dollar sign, and unknown names remain. Source: Kubernetes "expansion". */
function resolveReference(
  [whole, kind, name = ""]: readonly (string | undefined)[],
  variables: ReadonlyMap<string, string>,
): string {
  return kind === "$" ? "$" : (variables.get(name) ?? whole ?? "");
}

/** Computed in advance, because variables that reference each other twice double with each step. */
function fitsLimit(text: string, variables: ReadonlyMap<string, string>): boolean {
  let bytes = Buffer.byteLength(text);
  for (const match of text.matchAll(REFERENCE)) {
    bytes += Buffer.byteLength(resolveReference(match, variables)) - Buffer.byteLength(match[0]);
    if (bytes > TEXT_MAX) return false;
  }
  return bytes <= TEXT_MAX;
}

/** Undefined when the result would exceed the limit for one argument. */
export function expand(text: string, variables: ReadonlyMap<string, string>): string | undefined {
  if (!fitsLimit(text, variables)) return undefined;
  return text.replace(REFERENCE, (...match: readonly string[]) =>
    resolveReference(match, variables),
  );
}

export class SizeBudget {
  #left = TOTAL_MAX;

  consume(text: string): boolean {
    const bytes = Buffer.byteLength(text);
    this.#left -= bytes + 1; // the zero byte
    return bytes <= TEXT_MAX && this.#left >= 0;
  }
}

/** By name; missing objects have no entry. */
export interface EnvSources {
  readonly configMaps: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly secrets: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

interface EnvReferences {
  readonly configMaps: readonly string[];
  readonly secrets: readonly string[];
}

export interface EnvContext {
  readonly pod: Pod;
  readonly node: NodeFacts;
  readonly podIps: readonly string[];
  readonly sources: EnvSources;
}

interface Variables {
  readonly values: Map<string, string>;
  readonly budget: SizeBudget;
}

/** Source: Kubernetes validation IsEnvVarName, relaxed to what `execve` accepts. */
const NAME = /^[^=\0]+$/;

function uniqueNames(names: readonly (string | undefined)[]): readonly string[] {
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

export function listEnvReferences({ env = [], envFrom = [] }: Container): EnvReferences {
  return {
    configMaps: uniqueNames([
      ...envFrom.map(({ configMapRef }) => configMapRef?.name),
      ...env.map(({ valueFrom }) => valueFrom?.configMapKeyRef?.name),
    ]),
    secrets: uniqueNames([
      ...envFrom.map(({ secretRef }) => secretRef?.name),
      ...env.map(({ valueFrom }) => valueFrom?.secretKeyRef?.name),
    ]),
  };
}

function rejection(container: Container, reason: string): AppError {
  return new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
}

/** Throws when the value is undefined, because it was too long to expand. */
function set(
  variables: Variables,
  container: Container,
  at: readonly [string, string | undefined],
): void {
  const [name, value] = at;
  if (value === undefined || !variables.budget.consume(`${name}=${value}`)) {
    throw rejection(
      container,
      `with variable ${name} its environment exceeds the kernel's limits for programs: ${SIZE_LIMITS}`,
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

function findData(
  sources: EnvSources,
  { kind, name = "" }: Pick<Reference, "kind" | "name">,
): Readonly<Record<string, string>> | undefined {
  return (kind === "configMap" ? sources.configMaps : sources.secrets).get(name);
}

function resolveKey(
  container: Container,
  sources: EnvSources,
  reference: Reference,
): string | undefined {
  const { kind, name = "", key, optional } = reference;
  const data = findData(sources, reference);
  const value = data !== undefined && Object.hasOwn(data, key) ? data[key] : undefined;
  if (value !== undefined || optional === true) return value;
  const what =
    data === undefined ? `${kind} ${name} does not exist` : `${kind} ${name} has no ${key}`;
  throw rejection(container, what);
}

function keyReference({
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
  const reference = keyReference(from);
  if (reference !== undefined) return resolveKey(container, context.sources, reference);
  if (from.resourceFieldRef !== undefined) {
    return findResourceField(context.pod, from.resourceFieldRef, container);
  }
  const path = from.fieldRef?.fieldPath ?? "";
  const value = findField(context.pod, path, context);
  if (value === undefined) throw rejection(container, `fieldPath ${path} is not supported`);
  return value;
}

function envFromReference({
  configMapRef,
  secretRef,
}: EnvFromSource): Omit<Reference, "key"> | undefined {
  if (configMapRef !== undefined) return { kind: "configMap", ...configMapRef };
  return secretRef === undefined ? undefined : { kind: "secret", ...secretRef };
}

function addVariablesFrom(
  variables: Variables,
  container: Container,
  at: readonly [EnvFromSource, EnvSources],
): void {
  const [from, sources] = at;
  const reference = envFromReference(from);
  if (reference === undefined) return;
  const { kind, name = "", optional } = reference;
  const data = findData(sources, reference);
  if (data === undefined && optional !== true) {
    throw rejection(container, `${kind} ${name} does not exist`);
  }
  for (const [key, value] of Object.entries(data ?? {})) {
    const variable = `${from.prefix ?? ""}${key}`;
    if (NAME.test(variable)) set(variables, container, [variable, value]);
  }
}

function addVariable(
  variables: Variables,
  container: Container,
  at: readonly [EnvVar, EnvContext],
): void {
  const [{ name, value, valueFrom: from }, context] = at;
  if (!NAME.test(name))
    throw rejection(container, `${JSON.stringify(name)} is not a valid variable name`);
  if (from === undefined) {
    set(variables, container, [name, expand(value ?? "", variables.values)]);
    return;
  }
  const found = valueFrom(container, from, context);
  if (found !== undefined) set(variables, container, [name, found]);
}

/**
 * In order of definition.
 * @throws AppError with RUNTIME_CONTAINER_REFUSED
 */
export function buildEnvironment(
  container: Container,
  context: EnvContext,
  budget: SizeBudget,
): ReadonlyMap<string, string> {
  const { host, port } = context.node.apiServer ?? {};
  const variables: Variables = { values: new Map(), budget };
  if (host !== undefined && port !== undefined) {
    set(variables, container, ["KUBERNETES_SERVICE_HOST", host]);
    set(variables, container, ["KUBERNETES_SERVICE_PORT", port]);
    set(variables, container, ["KUBERNETES_SERVICE_PORT_HTTPS", port]);
  }
  for (const from of container.envFrom ?? [])
    addVariablesFrom(variables, container, [from, context.sources]);
  for (const one of container.env ?? []) addVariable(variables, container, [one, context]);
  return variables.values;
}

/** @throws AppError with RUNTIME_CONTAINER_REFUSED when the arguments are too large */
export function expandArguments(
  container: Container,
  texts: readonly string[],
  given: { readonly variables: ReadonlyMap<string, string>; readonly budget: SizeBudget },
): readonly string[] {
  return texts.map((text) => {
    const expanded = expand(text, given.variables);
    if (expanded !== undefined && given.budget.consume(expanded)) return expanded;
    throw rejection(
      container,
      `its command exceeds the kernel's limits for programs: ${SIZE_LIMITS}`,
    );
  });
}
