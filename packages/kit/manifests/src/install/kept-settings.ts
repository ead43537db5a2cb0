// SPDX-License-Identifier: Apache-2.0
// With which settings was a cluster installed? A repeat that does not name them keeps them.
import { isJsonObject, type KubeObject } from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";
import { typeOf } from "../types.ts";
import { isPodCreation } from "./pod-creation.ts";
import { FLAGS_OF_SETTINGS, isWorkload, type InstallSettings } from "./settings.ts";
import { isOurs } from "./strangers.ts";

/** The volume that lies directly below the kubelets' root directory, in both agents' pods. */
const BELOW_KUBELET = "pod-resources";

/** All values of members of that name, however deep. */
function membersIn(value: unknown, member: string): readonly unknown[] {
  if (Array.isArray(value)) return value.flatMap((one) => membersIn(one, member));
  if (!isJsonObject(value)) return [];
  const inner = Object.values(value).flatMap((one) => membersIn(one, member));
  return member in value ? [value[member], ...inner] : inner;
}

function textsIn(workloads: readonly KubeObject[], member: string): readonly string[] {
  const values = membersIn(workloads, member).flat();
  return values.filter((value): value is string => typeof value === "string");
}

/** The workload without containers that an operator added, because their images and arguments are not ours. */
function withoutAdded(found: KubeObject, manifest: KubeObject): KubeObject {
  const own = membersIn(manifest, "containers").flat().filter(isJsonObject);
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
  // The same object with a shorter list.
  return copy(found, "") as KubeObject;
}

/** The value of the first argument of that flag. */
function valueOf(args: readonly string[], flag: string): string | undefined {
  return args.find((arg) => arg.startsWith(flag))?.slice(flag.length);
}

function rootDirOf(workloads: readonly KubeObject[]): string | undefined {
  const end = `/${BELOW_KUBELET}`;
  const hostPaths = membersIn(workloads, "hostPath").flatMap((one) => membersIn(one, "path"));
  const path = hostPaths.find((one) => typeof one === "string" && one.endsWith(end));
  return typeof path === "string" ? path.slice(0, -end.length) : undefined;
}

/** The settings by which workloads that are there were made; none without workloads. */
export function settingsIn(workloads: readonly KubeObject[]): InstallSettings {
  const [image] = textsIn(workloads, "image");
  const args = textsIn(workloads, "args");
  const launcherImage = valueOf(args, FLAGS_OF_SETTINGS.launcherImage);
  const sidecarShimImage = valueOf(args, FLAGS_OF_SETTINGS.sidecarShimImage);
  const mode = valueOf(args, FLAGS_OF_SETTINGS.mode);
  const dataplaneGroup = valueOf(args, FLAGS_OF_SETTINGS.dataplaneGroup);
  const kubeletRootDir = rootDirOf(workloads);
  return {
    ...(image !== undefined && { image }),
    ...(launcherImage !== undefined && { launcherImage }),
    ...(sidecarShimImage !== undefined && { sidecarShimImage }),
    ...(mode !== undefined && { mode }),
    ...(dataplaneGroup !== undefined && { dataplaneGroup: Number(dataplaneGroup) }),
    ...(kubeletRootDir !== undefined && { kubeletRootDir }),
    ...(workloads.some(isPodCreation) && { podCreation: true }),
  };
}

/**
 * The settings of the installation that a cluster has; none where it has none.
 * @throws AppError with what the store throws
 */
export async function findSettings(
  store: Pick<Store, "find">,
  objects: readonly KubeObject[],
): Promise<InstallSettings> {
  const found: KubeObject[] = [];
  for (const object of objects.filter(isWorkload)) {
    const there = await store.find(typeOf(object), object.metadata);
    if (there !== undefined && isOurs(there)) {
      found.push(withoutAdded({ ...there, kind: object.kind }, object));
    }
  }
  return settingsIn(found);
}
