// SPDX-License-Identifier: Apache-2.0
// Environment variables and arguments of a container. Pure: the caller reads the referenced objects.
import type { Container, EnvFromSource, EnvVar, Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { findField, findResourceField } from "./fields.ts";
import type { NodeFacts } from "./node-facts.ts";

/** Maximum bytes of one argument or variable. Source: MAX_ARG_STRLEN of linux/binfmts.h, less the zero byte. */
const TEXT_MAX = 131_071;
/** Maximum bytes of all arguments and variables: a quarter of the stack's limit of 8 MiB. Source: execve(2). */
const TOTAL_MAX = 2 * 1024 * 1024;

const SIZE_LIMITS = `${String(TEXT_MAX)} bytes in one, ${String(TOTAL_MAX / 2 ** 20)} MiB in all`;

const REFERENCE = /\$(\$|\(([^()]*)\))/g;

/** Resolves a reference. `$$` is a dollar sign, and unknown names are unchanged. Source: package expansion of Kubernetes. */
function resolveReference(
  [whole, kind, name = ""]: readonly (string | undefined)[],
  variables: ReadonlyMap<string, string>,
): string {
  return kind === "$" ? "$" : (variables.get(name) ?? whole ?? "");
}

/** Returns whether the expansion fits. Checked in advance, because nested double references grow exponentially. */
function fitsLimit(text: string, variables: ReadonlyMap<string, string>): boolean {
  let bytes = Buffer.byteLength(text);
  for (const match of text.matchAll(REFERENCE)) {
    bytes += Buffer.byteLength(resolveReference(match, variables)) - Buffer.byteLength(match[0]);
    if (bytes > TEXT_MAX) return false;
  }
  return bytes <= TEXT_MAX;
}

/** Expands references; undefined if the result would exceed the limit for one argument. */
export function expand(text: string, variables: ReadonlyMap<string, string>): string | undefined {
  if (!fitsLimit(text, variables)) return undefined;
  return text.replace(REFERENCE, (...match: readonly string[]) =>
    resolveReference(match, variables),
  );
}

export class SizeBudget {
  #remainingBytes = TOTAL_MAX;

  consume(text: string): boolean {
    const bytes = Buffer.byteLength(text);
    this.#remainingBytes -= bytes + 1; // the zero byte
    return bytes <= TEXT_MAX && this.#remainingBytes >= 0;
  }
}

/** Data of existing objects, by object name. */
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

/** Pattern of variable names that `execve` accepts. Kubernetes' IsEnvVarName is stricter. */
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

function buildRejection(container: Container, reason: string): AppError {
  return new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
}

/** Sets a variable. Throws if the value is too long, or undefined because its expansion would be. */
function setVariable(
  variables: Variables,
  container: Container,
  at: readonly [string, string | undefined],
): void {
  const [name, value] = at;
  if (value === undefined || !variables.budget.consume(`${name}=${value}`)) {
    throw buildRejection(
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
  const problem =
    data === undefined ? `${kind} ${name} does not exist` : `${kind} ${name} has no ${key}`;
  throw buildRejection(container, problem);
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
  if (value === undefined) throw buildRejection(container, `fieldPath ${path} is not supported`);
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
    throw buildRejection(container, `${kind} ${name} does not exist`);
  }
  for (const [key, value] of Object.entries(data ?? {})) {
    const variable = `${from.prefix ?? ""}${key}`;
    if (NAME.test(variable)) setVariable(variables, container, [variable, value]);
  }
}

function addVariable(
  variables: Variables,
  container: Container,
  at: readonly [EnvVar, EnvContext],
): void {
  const [{ name, value, valueFrom: from }, context] = at;
  if (!NAME.test(name))
    throw buildRejection(container, `${JSON.stringify(name)} is not a valid variable name`);
  if (from === undefined) {
    setVariable(variables, container, [name, expand(value ?? "", variables.values)]);
    return;
  }
  const found = valueFrom(container, from, context);
  if (found !== undefined) setVariable(variables, container, [name, found]);
}

/**
 * Returns the variables in order of definition.
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
    setVariable(variables, container, ["KUBERNETES_SERVICE_HOST", host]);
    setVariable(variables, container, ["KUBERNETES_SERVICE_PORT", port]);
    setVariable(variables, container, ["KUBERNETES_SERVICE_PORT_HTTPS", port]);
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
    throw buildRejection(
      container,
      `its command exceeds the kernel's limits for programs: ${SIZE_LIMITS}`,
    );
  });
}
