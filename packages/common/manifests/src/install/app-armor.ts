// SPDX-License-Identifier: Apache-2.0
// AppArmor profiles as annotations, for API servers before Kubernetes 1.30, which lack the field `appArmorProfile`.
// Source: "Restrict a Container's Access to Resources with AppArmor" of Kubernetes.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isWorkload } from "./settings.ts";

const FIELD_SINCE = { major: 1, minor: 30 };
const ANNOTATION = "container.apparmor.security.beta.kubernetes.io/";

/** Returns whether the API server supports `appArmorProfile`. Returns true if the version cannot be parsed. */
function hasField(answer: string): boolean {
  const version = parseJson(answer);
  const gitVersion = isJsonObject(version) ? String(version["gitVersion"]) : "";
  const [, major, minor] = /^v?(\d+)\.(\d+)/.exec(gitVersion) ?? [];
  if (major === undefined || minor === undefined) return true;
  if (Number(major) !== FIELD_SINCE.major) return Number(major) > FIELD_SINCE.major;
  return Number(minor) >= FIELD_SINCE.minor;
}

function readObject(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}

function withoutField(container: JsonObject): {
  readonly container: JsonObject;
  readonly annotations: JsonObject;
} {
  const { appArmorProfile, ...securityContext } = readObject(container, "securityContext");
  const isUnconfined = isJsonObject(appArmorProfile) && appArmorProfile["type"] === "Unconfined";
  if (!isUnconfined) return { container, annotations: {} };
  const key = `${ANNOTATION}${String(container["name"])}`;
  return { container: { ...container, securityContext }, annotations: { [key]: "unconfined" } };
}

function withAnnotations(workload: KubeObject & { readonly spec?: unknown }): KubeObject {
  const spec = isJsonObject(workload.spec) ? workload.spec : {};
  const template = readObject(spec, "template");
  const podSpec = readObject(template, "spec");
  const { containers } = podSpec;
  const listed = Array.isArray(containers) ? containers.filter(isJsonObject) : [];
  const changed = listed.map(withoutField);
  const annotations = Object.assign({}, ...changed.map((each) => each.annotations)) as JsonObject;
  if (Object.keys(annotations).length === 0) return workload;
  const metadata = readObject(template, "metadata");
  const changedTemplate = {
    ...template,
    metadata: {
      ...metadata,
      annotations: { ...readObject(metadata, "annotations"), ...annotations },
    },
    spec: { ...podSpec, containers: changed.map(({ container }) => container) },
  };
  const adapted = { ...workload, spec: { ...spec, template: changedTemplate } };
  return adapted;
}

/** Replaces unconfined `appArmorProfile`s with annotations if the server lacks the field. `answer` is the response to `/version`. */
export function forServerVersion(
  objects: readonly KubeObject[],
  answer: string,
): readonly KubeObject[] {
  if (hasField(answer)) return objects;
  return objects.map((object) => (isWorkload(object) ? withAnnotations(object) : object));
}
