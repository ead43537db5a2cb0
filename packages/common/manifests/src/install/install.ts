// SPDX-License-Identifier: Apache-2.0
// Installs manifests like `kubectl apply`, without changing other installations.
import { MUTATING_WEBHOOKS } from "@patchbay/api";
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import type { KubeObject, WebhookConfiguration } from "@patchbay/api/kubernetes";
import { AppError, isAppError, isEqual } from "@patchbay/base";
import type { Store, WriteOptions } from "@patchbay/core/interfaces";
import { withConditions } from "../conditions.ts";
import { findType, TYPES } from "../types.ts";
import { buildReplacement, withoutVolatileMetadata, withLastInstalled } from "./merge-objects.ts";
import { requestPluginRemovalIfUnused } from "./uninstall-plugins.ts";
import { isWorkload } from "./settings.ts";
import { rejectDowngrade } from "./stored-versions.ts";
import { findConflicts, isPatchbayObject, isShared, describeObject } from "./foreign-objects.ts";

/** Fields that identify a list entry, in order of preference. */
const ENTRY_KEYS = ["mountPath", "name"];

function findEntryKey(entry: unknown): string | undefined {
  if (!isJsonObject(entry)) return undefined;
  const key = ENTRY_KEYS.find((name) => typeof entry[name] === "string");
  return key === undefined ? undefined : String(entry[key]);
}

function toText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Shortens a path in a pod template, for example `template.spec.containers[virt-api].args` to `virt-api: args`. */
function shortenPath(path: string): string {
  return path
    .replace(/^template\.spec\.containers\[([^\]]+)\]\.?/, "$1: ")
    .replace(/^template\.spec\./, "");
}

function listLines(value: unknown, path: string): readonly string[] {
  if (isJsonObject(value)) {
    return Object.entries(value).flatMap(([name, memberValue]) =>
      listLines(memberValue, path === "" ? name : `${path}.${name}`),
    );
  }
  if (!Array.isArray(value)) return [`${shortenPath(path)}: ${toText(value)}`];
  const isArguments = path.endsWith("].args");
  return value.flatMap((entry: unknown) => {
    const key = findEntryKey(entry);
    if (isArguments) return [`${shortenPath(path.replace(/args$/, ""))}${toText(entry)}`];
    return key !== undefined && /(?:ontainers|versions|webhooks)$/.test(path)
      ? listLines(entry, `${path}[${key}]`)
      : [`${shortenPath(key === undefined ? path : `${path}[${key}]`)}: ${toText(entry)}`];
  });
}

/**
 * Lists the values that only one of the two specifications has. A value of `before` has the prefix `-`, and a value of
 * `after` has the prefix `+`, for example `- net-agent: --mode=alone`.
 */
export function specDifferences(before: JsonObject, after: JsonObject): readonly string[] {
  const [oldLines, newLines] = [new Set(listLines(before, "")), new Set(listLines(after, ""))];
  return [
    ...[...oldLines].filter((line) => !newLines.has(line)).map((line) => `- ${line}`),
    ...[...newLines].filter((line) => !oldLines.has(line)).map((line) => `+ ${line}`),
  ];
}

export interface ObjectResult {
  /** Kind and name, for example `Deployment patchbay/virt-api`. */
  readonly name: string;
  readonly change: "created" | "changed" | "unchanged" | "left alone";
  /** Whether the API server validated the object. Validation is impossible while the namespace or kind does not exist. */
  readonly isChecked: boolean;
  /** Removed (`-`) and added (`+`) values with their field paths, for a workload within its specification; unset if there are none. */
  readonly differences?: readonly string[];
}

type ApplyResult = Pick<ObjectResult, "change" | "differences">;

/** Members that identify an object, that no manifest sets, or that contain secrets. */
const UNCOMPARED_MEMBERS: ReadonlySet<string> = new Set([
  "apiVersion",
  "data",
  "kind",
  "metadata",
  "status",
  "stringData",
]);

function readComparedMembers(object: KubeObject & { readonly spec?: unknown }): JsonObject {
  if (isWorkload(object)) return isJsonObject(object.spec) ? object.spec : {};
  const { labels = {}, annotations = {} } = object.metadata;
  const members = Object.entries(object).filter(([name]) => !UNCOMPARED_MEMBERS.has(name));
  return { metadata: { labels, annotations }, ...Object.fromEntries(members) };
}

const ATTEMPTS = 5;

async function applyOnce(
  store: Store,
  object: KubeObject,
  options: WriteOptions,
): Promise<ApplyResult> {
  const type = findType(object);
  const found = await store.find(type, object.metadata);
  if (found === undefined) {
    await store.create(type, object, options);
    return { change: "created" };
  }
  // The NetworkAttachmentDefinition CRD is never overwritten, because other components also write it.
  if (isShared(object)) return { change: isPatchbayObject(found) ? "unchanged" : "left alone" };
  const written = await store.update(type, buildReplacement(found, object), options);
  if (isEqual(withoutVolatileMetadata(written), withoutVolatileMetadata(found)))
    return { change: "unchanged" };
  const { kind } = object;
  const differences = specDifferences(
    readComparedMembers({ ...found, kind }),
    readComparedMembers({ ...written, kind }),
  );
  return { change: "changed", ...(differences.length > 0 && { differences }) };
}

async function apply(
  store: Store,
  object: KubeObject,
  options: WriteOptions,
): Promise<ApplyResult> {
  for (let remaining = ATTEMPTS - 1; ; remaining -= 1) {
    try {
      return await applyOnce(store, object, options);
    } catch (error) {
      // Retries if another client created or changed the object meanwhile, for example virt-api, which writes CA bundles.
      const isLost = isAppError(error, "KUBE_CONFLICT") || isAppError(error, "KUBE_ALREADY_EXISTS");
      if (!isLost || remaining === 0) throw error;
    }
  }
}

/** Returns whether the API server supports match conditions. By default, servers before 1.28 reject or drop these conditions. */
async function supportsConditions(store: Store, objects: readonly KubeObject[]): Promise<boolean> {
  const sample = objects.find(({ kind }) => kind === MUTATING_WEBHOOKS.kind);
  if (sample === undefined) return false;
  const probe: WebhookConfiguration = {
    ...withConditions(sample),
    metadata: { name: `${sample.metadata.name}-probe` },
  };
  try {
    const options = { dryRun: true, isStrict: true };
    const created = await store.create(MUTATING_WEBHOOKS, probe, options);
    return created.webhooks?.some((webhook) => "matchConditions" in webhook) === true;
  } catch (error) {
    if (isAppError(error, "KUBE_REFUSED")) return false;
    throw error;
  }
}

function sortByType(objects: readonly KubeObject[]): readonly KubeObject[] {
  return TYPES.flatMap((type) => objects.filter((object) => findType(object) === type));
}

/** Returns whether a dry run can validate the object, which requires that the object's namespace exists. */
async function canValidate(store: Store, object: KubeObject): Promise<boolean> {
  const [namespaces] = TYPES;
  const { namespace: name } = object.metadata;
  if (name === undefined || namespaces === undefined) return true;
  return (await store.find(namespaces, { name })) !== undefined;
}

/** Objects to install. With `dryRun`, changes are only reported. */
interface Installation {
  readonly objects: readonly KubeObject[];
  readonly dryRun: boolean;
  readonly report: (outcome: ObjectResult) => void;
  /** Called for each object that the server refuses in a dry run. If unset, the dry run ends with the first of these errors. */
  readonly reportRefusal?: (name: string, error: unknown) => void;
}

async function applyListed(
  store: Store,
  listed: KubeObject,
  { dryRun, report }: Pick<Installation, "dryRun" | "report">,
): Promise<void> {
  const object = isWorkload(listed) ? withLastInstalled(listed) : listed;
  const isChecked = !dryRun || (await canValidate(store, object));
  const applied: ApplyResult = isChecked
    ? await apply(store, object, { dryRun, isStrict: true })
    : { change: "created" };
  report({ name: describeObject(object), ...applied, isChecked });
}

/** @throws AppError with INSTALL_NOT_OURS or FORMAT_TOO_NEW before any change, or with the code of a failed request */
export async function install(store: Store, installation: Installation): Promise<void> {
  const { dryRun } = installation;
  const conflicts = await findConflicts(store, installation.objects);
  if (conflicts.length > 0) {
    throw new AppError("INSTALL_NOT_OURS", { objects: conflicts.join(", ") });
  }
  await rejectDowngrade(store, installation.objects);
  if (!dryRun) await requestPluginRemovalIfUnused(store, installation.objects);
  const isConditioned = await supportsConditions(store, installation.objects);
  const objects = isConditioned ? installation.objects.map(withConditions) : installation.objects;
  for (const listed of sortByType(objects)) {
    try {
      await applyListed(store, listed, installation);
    } catch (error) {
      if (!dryRun || installation.reportRefusal === undefined) throw error;
      installation.reportRefusal(describeObject(listed), error);
    }
  }
}
