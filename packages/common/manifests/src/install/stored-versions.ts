// SPDX-License-Identifier: Apache-2.0
import { isJsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { DEFINITIONS } from "../types.ts";
import { describeObject, isShared } from "./foreign-objects.ts";

function listTexts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((entry) => typeof entry === "string") : [];
}

function listStoredVersions(definition: KubeObject & { readonly status?: unknown }) {
  const { status } = definition;
  return isJsonObject(status) ? listTexts(status["storedVersions"]) : [];
}

function listVersions(definition: KubeObject & { readonly spec?: unknown }): readonly string[] {
  const versions = isJsonObject(definition.spec) ? definition.spec["versions"] : undefined;
  const entries = Array.isArray(versions) ? versions.filter(isJsonObject) : [];
  return listTexts(entries.map(({ name }) => name));
}

/** Rejects a downgrade to CRDs that lack the version in which the cluster stores objects. @throws AppError with FORMAT_TOO_NEW */
export async function rejectDowngrade(
  store: Pick<Store, "find">,
  objects: readonly KubeObject[],
): Promise<void> {
  for (const object of objects) {
    if (object.kind !== DEFINITIONS.kind || isShared(object)) continue;
    const installed = await store.find(DEFINITIONS, object.metadata);
    const versions = listVersions(object);
    const found = (installed === undefined ? [] : listStoredVersions(installed)).find(
      (version) => !versions.includes(version),
    );
    if (found === undefined) continue;
    const details = { path: describeObject(object), found, supported: versions.join(", ") };
    throw new AppError("FORMAT_TOO_NEW", details);
  }
}
