// SPDX-License-Identifier: Apache-2.0
// Reads the settings of an existing installation. A repeated `install` preserves them unless its options override them.
import { names } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Store } from "@patchbay/core/interfaces";
import { findType } from "../types.ts";
import { isPodCreation } from "./pod-creation.ts";
import { SETTING_FLAGS, isWorkload, type InstallSettings } from "./settings.ts";
import { isPatchbayObject } from "./foreign-objects.ts";

/** Directory below the kubelet's root directory. net-agent and virt-handler mount it, so its path reveals the root directory. */
const KUBELET_VOLUME = "pod-resources";

function findMembers(value: unknown, member: string): readonly unknown[] {
  if (Array.isArray(value)) return value.flatMap((item) => findMembers(item, member));
  if (!isJsonObject(value)) return [];
  const inner = Object.values(value).flatMap((one) => findMembers(one, member));
  return member in value ? [value[member], ...inner] : inner;
}

function findTexts(workloads: readonly KubeObject[], member: string): readonly string[] {
  const values = findMembers(workloads, member).flat();
  return values.filter((value): value is string => typeof value === "string");
}

/** Removes init containers, and containers that an operator added, because their images and arguments are not settings. */
function removeAddedContainers(found: KubeObject, manifest: KubeObject): KubeObject {
  const own = findMembers(manifest, "containers").flat().filter(isJsonObject);
  const isAdded = (entry: unknown): boolean =>
    isJsonObject(entry) && own.every(({ name }) => name !== entry["name"]);
  const copy = (value: unknown, member: string): unknown => {
    if (Array.isArray(value)) {
      return member === "containers" ? value.filter((entry) => !isAdded(entry)) : value;
    }
    if (!isJsonObject(value)) return value;
    const members = Object.entries(value).filter(([name]) => name !== "initContainers");
    return Object.fromEntries(members.map(([name, one]) => [name, copy(one, name)]));
  };
  // The cast is safe, because the copy differs from `found` only by omitted containers.
  return copy(found, "") as KubeObject;
}

function findFlagValue(args: readonly string[], flag: string): string | undefined {
  return args.find((arg) => arg.startsWith(flag))?.slice(flag.length);
}

function findRootDir(workloads: readonly KubeObject[]): string | undefined {
  const end = `/${KUBELET_VOLUME}`;
  const hostPaths = findMembers(workloads, "hostPath").flatMap((one) => findMembers(one, "path"));
  const path = hostPaths.find((one) => typeof one === "string" && one.endsWith(end));
  return typeof path === "string" ? path.slice(0, -end.length) : undefined;
}

function splitImage(reference: string): readonly [repository: string, digest: string | undefined] {
  const [name = "", digest] = reference.split("@");
  const colon = name.indexOf(":", name.lastIndexOf("/") + 1);
  return [colon === -1 ? name : name.slice(0, colon), digest];
}

/** Moves an installation by digest to the image of this release, in the repository that the installation uses. */
export function chooseImage(existing: string, released: string): string {
  const [repository, before] = splitImage(existing);
  const [releasedRepository, after] = splitImage(released);
  if (before === undefined || after === undefined) return existing;
  return repository + released.slice(releasedRepository.length);
}

export function parseSettings(workloads: readonly KubeObject[]): InstallSettings {
  const [image] = findTexts(workloads, "image");
  const args = findTexts(workloads, "args");
  const launcherImage = findFlagValue(args, SETTING_FLAGS.launcherImage);
  const sidecarShimImage = findFlagValue(args, SETTING_FLAGS.sidecarShimImage);
  const mode = findFlagValue(args, SETTING_FLAGS.mode);
  const dataplaneGroup = findFlagValue(args, SETTING_FLAGS.dataplaneGroup);
  const kubeletRootDir = findRootDir(workloads);
  return {
    ...(image !== undefined && { image: chooseImage(image, names.PATCHBAY_IMAGE) }),
    ...(launcherImage !== undefined && {
      launcherImage: chooseImage(launcherImage, names.LAUNCHER_IMAGE),
    }),
    ...(sidecarShimImage !== undefined && {
      sidecarShimImage: chooseImage(sidecarShimImage, names.SIDECAR_SHIM_IMAGE),
    }),
    ...(mode !== undefined && { mode }),
    ...(dataplaneGroup !== undefined && { dataplaneGroup: Number(dataplaneGroup) }),
    ...(kubeletRootDir !== undefined && { kubeletRootDir }),
    ...(workloads.some(isPodCreation) && { podCreation: true }),
  };
}

/** Finds the settings of the installation; empty if Patchbay is not installed. @throws AppError with the code of a failed request */
export async function findSettings(
  store: Pick<Store, "find">,
  objects: readonly KubeObject[],
): Promise<InstallSettings> {
  const found: KubeObject[] = [];
  for (const object of objects.filter(isWorkload)) {
    const existing = await store.find(findType(object), object.metadata);
    if (existing !== undefined && isPatchbayObject(existing)) {
      found.push(removeAddedContainers({ ...existing, kind: object.kind }, object));
    }
  }
  return parseSettings(found);
}
