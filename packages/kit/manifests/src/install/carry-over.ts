// SPDX-License-Identifier: Apache-2.0
// What stays of an object that is there when it becomes what its manifest says? What others have written. Pure.
import { isJsonObject, type JsonObject, type KubeObject } from "@patchbay/api";

import { lastInstalled, mergeSpec } from "./merge-workload.ts";
import { isWorkload } from "./settings.ts";

type Fields = Readonly<Record<string, unknown>>;

function fieldsAt(object: Fields, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}

function namedIn(list: unknown, name: unknown): JsonObject {
  const found: unknown = Array.isArray(list)
    ? list.find((entry: unknown) => isJsonObject(entry) && entry["name"] === name)
    : undefined;
  return isJsonObject(found) ? found : {};
}

/** virt-api writes its authority where no manifest has one. */
function withBundle(found: JsonObject, wanted: JsonObject): JsonObject {
  const { caBundle } = found;
  return caBundle === undefined ? wanted : { caBundle, ...wanted };
}

function withBundles(found: Fields, wanted: Fields): Fields {
  const { webhooks } = wanted;
  if (!Array.isArray(webhooks)) return {};
  const merged = webhooks.filter(isJsonObject).map((webhook) => {
    const before = namedIn(found["webhooks"], webhook["name"]);
    const clientConfig = withBundle(
      fieldsAt(before, "clientConfig"),
      fieldsAt(webhook, "clientConfig"),
    );
    return { ...webhook, clientConfig };
  });
  return { webhooks: merged };
}

function specOf(there: KubeObject, wanted: KubeObject): Fields {
  const [found, spec] = [fieldsAt({ ...there }, "spec"), fieldsAt({ ...wanted }, "spec")];
  if (wanted.kind === "APIService") return { spec: withBundle(found, spec) };
  return isWorkload(wanted) ? { spec: mergeSpec(lastInstalled(there), found, spec) } : {};
}

/**
 * The object to write in place of `found`. Members that the manifest does not have stay, labels and annotations are
 * added to, and so does the authority in webhooks and in an APIService. What an operator changed in a service stays.
 */
export function carryOver(found: KubeObject, wanted: KubeObject): KubeObject {
  const [before, after]: readonly [Fields, Fields] = [{ ...found }, { ...wanted }];
  const metadata = {
    ...found.metadata,
    labels: { ...found.metadata.labels, ...wanted.metadata.labels },
    annotations: { ...found.metadata.annotations, ...wanted.metadata.annotations },
  };
  const spec = specOf(found, wanted);
  return { ...found, ...wanted, ...spec, ...withBundles(before, after), metadata };
}

/** Members of metadata that every write changes, and that say nothing of what is wanted. */
const BOOKKEEPING: readonly string[] = ["managedFields", "resourceVersion", "generation"];

/** The object as far as a person would call it changed. */
export function essenceOf(object: KubeObject): unknown {
  const { labels = {}, annotations = {}, ...rest } = object.metadata;
  const kept = Object.entries(rest).filter(([name]) => !BOOKKEEPING.includes(name));
  return { ...object, metadata: { ...Object.fromEntries(kept), labels, annotations } };
}
