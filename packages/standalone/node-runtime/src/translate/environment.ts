// SPDX-License-Identifier: Apache-2.0
// Builds environment variables and arguments of a container. Callers read the referenced objects.
import type { Container, EnvFromSource, EnvVar, Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { findField, findResourceField } from "./fields.ts";
import type { NodeFacts } from "./node-facts.ts";

/** Maximum size of one argument or variable, in bytes. Source: MAX_ARG_STRLEN of linux/binfmts.h, less the zero byte. */
const TEXT_MAX_BYTES = 131_071;
/** Maximum size of all arguments and variables, in bytes: a quarter of the stack limit of 8 MiB. Source: execve(2). */
const TOTAL_MAX_BYTES = 2 * 1024 * 1024;

const SIZE_LIMITS = `${String(TEXT_MAX_BYTES)} bytes in one, ${String(TOTAL_MAX_BYTES / 2 ** 20)} MiB in all`;

const REFERENCE_PATTERN = /\$(\$|\(([^()]*)\))/g;

/** Returns the expansion of a reference: `$`, the variable's value, or the reference itself if unknown. Source: expansion of Kubernetes. */
function resolveReference(
  [match, kind, name = ""]: readonly (string | undefined)[],
  variables: ReadonlyMap<string, string>,
): string {
  return kind === "$" ? "$" : (variables.get(name) ?? match ?? "");
}

/** Returns whether the expanded text fits the limit. Does not expand it, because many references could expand to gigabytes. */
function fitsLimit(text: string, variables: ReadonlyMap<string, string>): boolean {
  let bytes = Buffer.byteLength(text);
  for (const match of text.matchAll(REFERENCE_PATTERN)) {
    bytes += Buffer.byteLength(resolveReference(match, variables)) - Buffer.byteLength(match[0]);
    if (bytes > TEXT_MAX_BYTES) return false;
  }
  return bytes <= TEXT_MAX_BYTES;
}

/** Expands references such as `$(NAME)`. Returns undefined if the result would exceed the limit of one argument. */
export function expand(text: string, variables: ReadonlyMap<string, string>): string | undefined {
  if (!fitsLimit(text, variables)) return undefined;
  return text.replace(REFERENCE_PATTERN, (...match: readonly string[]) =>
    resolveReference(match, variables),
  );
}

export class SizeBudget {
  #remainingBytes = TOTAL_MAX_BYTES;

  consume(text: string): boolean {
    const bytes = Buffer.byteLength(text);
    this.#remainingBytes -= bytes + 1; // Also counts the terminating zero byte.
    return bytes <= TEXT_MAX_BYTES && this.#remainingBytes >= 0;
  }
}

/** Data of the ConfigMaps and Secrets that exist, by object name. */
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
const NAME_PATTERN = /^[^=\0]+$/;

function uniqueNames(names: readonly (string | undefined)[]): readonly string[] {
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

export function listEnvReferences({ env = [], envFrom = [] }: Container): EnvReferences {
  return {
    configMaps: uniqueNames([
      ...envFrom.map(({ configMapRef }) => configMapRef?.name),
      ...env.map(({ valueFrom: resolveValue }) => resolveValue?.configMapKeyRef?.name),
    ]),
    secrets: uniqueNames([
      ...envFrom.map(({ secretRef }) => secretRef?.name),
      ...env.map(({ valueFrom: resolveValue }) => resolveValue?.secretKeyRef?.name),
    ]),
  };
}

function buildRejection(container: Container, reason: string): AppError {
  return new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
}

/** Sets a variable. Throws if the environment becomes too long, or if the value is undefined because its expansion would be too long. */
function setVariable(
  variables: Variables,
  container: Container,
  variable: readonly [string, string | undefined],
): void {
  const [name, value] = variable;
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

function parseKeyReference({
  configMapKeyRef,
  secretKeyRef,
}: NonNullable<EnvVar["valueFrom"]>): Reference | undefined {
  if (configMapKeyRef !== undefined) return { kind: "configMap", ...configMapKeyRef };
  return secretKeyRef === undefined ? undefined : { kind: "secret", ...secretKeyRef };
}

function resolveValue(
  container: Container,
  valueFrom: NonNullable<EnvVar["valueFrom"]>,
  context: EnvContext,
): string | undefined {
  const reference = parseKeyReference(valueFrom);
  if (reference !== undefined) return resolveKey(container, context.sources, reference);
  if (valueFrom.resourceFieldRef !== undefined) {
    return findResourceField(context.pod, valueFrom.resourceFieldRef, container);
  }
  const path = valueFrom.fieldRef?.fieldPath ?? "";
  const value = findField(context.pod, path, context);
  if (value === undefined) throw buildRejection(container, `fieldPath ${path} is not supported`);
  return value;
}

function parseEnvFromReference({
  configMapRef,
  secretRef,
}: EnvFromSource): Omit<Reference, "key"> | undefined {
  if (configMapRef !== undefined) return { kind: "configMap", ...configMapRef };
  return secretRef === undefined ? undefined : { kind: "secret", ...secretRef };
}

function addVariablesFrom(
  variables: Variables,
  container: Container,
  source: readonly [EnvFromSource, EnvSources],
): void {
  const [envFrom, sources] = source;
  const reference = parseEnvFromReference(envFrom);
  if (reference === undefined) return;
  const { kind, name = "", optional } = reference;
  const data = findData(sources, reference);
  if (data === undefined && optional !== true) {
    throw buildRejection(container, `${kind} ${name} does not exist`);
  }
  for (const [key, value] of Object.entries(data ?? {})) {
    const variable = `${envFrom.prefix ?? ""}${key}`;
    if (NAME_PATTERN.test(variable)) setVariable(variables, container, [variable, value]);
  }
}

function addVariable(
  variables: Variables,
  container: Container,
  entry: readonly [EnvVar, EnvContext],
): void {
  const [{ name, value, valueFrom }, context] = entry;
  if (!NAME_PATTERN.test(name))
    throw buildRejection(container, `${JSON.stringify(name)} is not a valid variable name`);
  if (valueFrom === undefined) {
    setVariable(variables, container, [name, expand(value ?? "", variables.values)]);
    return;
  }
  const resolvedValue = resolveValue(container, valueFrom, context);
  if (resolvedValue !== undefined) setVariable(variables, container, [name, resolvedValue]);
}

/** Returns the variables in order of definition. @throws AppError with RUNTIME_CONTAINER_REFUSED */
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
  for (const source of container.envFrom ?? [])
    addVariablesFrom(variables, container, [source, context.sources]);
  for (const variable of container.env ?? [])
    addVariable(variables, container, [variable, context]);
  return variables.values;
}

/** @throws AppError with RUNTIME_CONTAINER_REFUSED when the arguments are too large */
export function expandArguments(
  container: Container,
  texts: readonly string[],
  context: { readonly variables: ReadonlyMap<string, string>; readonly budget: SizeBudget },
): readonly string[] {
  return texts.map((text) => {
    const expanded = expand(text, context.variables);
    if (expanded !== undefined && context.budget.consume(expanded)) return expanded;
    throw buildRejection(
      container,
      `its command exceeds the kernel's limits for programs: ${SIZE_LIMITS}`,
    );
  });
}
