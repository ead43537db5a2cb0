// SPDX-License-Identifier: Apache-2.0
// What does a container see? The table that pod-init carries out. Pure.
import { join } from "node:path";
import { names, type Container, type Pod } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { Image } from "../images.ts";
import { volumeDirectory, type PodPaths } from "./paths.ts";

/** The device of each resource. Source: KubeVirt device plugin. */
const DEVICES: readonly (readonly [resource: string, device: string])[] = [
  [names.KVM_RESOURCE, "/dev/kvm"],
  [names.TUN_RESOURCE, "/dev/net/tun"],
];

/** Files of the container's own that take the place of the host's, by name. */
export const ACCOUNT_FILES = ["group", "hosts", "passwd"];

/** One container to run. */
export interface ContainerToRun {
  readonly pod: Pod;
  readonly container: Container;
  readonly image: Image;
  /** Directory of each image that is a volume, by reference. */
  readonly imageVolumes: ReadonlyMap<string, string>;
  readonly paths: PodPaths;
  readonly bundle: string;
}

function sourceOf(run: ContainerToRun, volumeName: string): string {
  const volume = run.pod.spec.volumes?.find(({ name }) => name === volumeName);
  if (volume?.emptyDir !== undefined) return volumeDirectory(run.paths, volumeName);
  const source = run.imageVolumes.get(volume?.image?.reference ?? "");
  if (source !== undefined) return source;
  throw new AppError("RUNTIME_POD_FAILED", {
    pod: run.pod.metadata.name,
    reason: `volume ${volumeName} is neither an emptyDir nor an image`,
  });
}

function volumeMounts(run: ContainerToRun): readonly (readonly string[])[] {
  // Tokens are put into pods by the kubelet that takes this one's place.
  const mounts = (run.container.volumeMounts ?? []).filter(
    ({ name }) => !name.startsWith("kube-api-access-"),
  );
  return mounts.map(({ name, mountPath, readOnly }) => {
    const isImage = run.pod.spec.volumes?.some((v) => v.name === name && v.image !== undefined);
    const mode = readOnly === true || isImage === true ? "ro" : "rw";
    return ["bind", sourceOf(run, name), mountPath, mode];
  });
}

/** The mounts in their order, each a line of fields. */
export function planMounts(run: ContainerToRun): readonly (readonly string[])[] {
  const { image, bundle, container } = run;
  const limits = container.resources?.limits ?? {};
  return [
    ["root", image.root],
    ...image.hidden.map((path) => ["tmpfs", path, "ro,size=4k,mode=755"]),
    ...(image.hasOwnAccounts ? ACCOUNT_FILES : []).map((file) => {
      return ["bind", join(bundle, file), `/etc/${file}`, "ro"];
    }),
    ...image.binds.map(([source, target]) => ["bind", source, target, "ro"]),
    ...volumeMounts(run),
    ...DEVICES.filter(([resource]) => limits[resource] !== undefined).map(([, device]) => {
      return ["device", device];
    }),
  ];
}

/**
 * The table as pod-init reads it.
 * @throws AppError with RUNTIME_POD_FAILED when a field cannot be written
 */
export function printMounts(run: ContainerToRun): string {
  const mounts = planMounts(run);
  const bad = mounts.flat().find((field) => /[\t\n]/.test(field) || field === "");
  if (bad !== undefined) {
    const reason = `mount ${JSON.stringify(bad)} is no path`;
    throw new AppError("RUNTIME_POD_FAILED", { pod: run.pod.metadata.name, reason });
  }
  return mounts.map((fields) => `${fields.join("\t")}\n`).join("");
}
