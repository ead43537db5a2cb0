// SPDX-License-Identifier: Apache-2.0
// Image commands, which work even if the machine is not up.
import { fullReference } from "@patchbay/containerd";
import { createFiles } from "@patchbay/os";
import { buildPaths } from "../data-dir/paths.ts";
import {
  addImageTo,
  listAddedNames,
  listWithSizes,
  removableReference,
  removeImageFrom,
  type MachineImage,
  type NewImage,
} from "./image-store.ts";
import { runsContainerd, withContainerd } from "./with-containerd.ts";

export interface ImageToAdd extends NewImage {
  readonly dataDir: string;
}

export async function listImages(dataDir: string): Promise<readonly MachineImage[]> {
  if (!(await createFiles().exists(buildPaths(dataDir).containerd))) return [];
  return withContainerd(dataDir, listWithSizes);
}

/** Lists images only if containerd runs. Does not start it, because shell completion calls this function. */
export async function listRunningImages(dataDir: string): Promise<readonly string[]> {
  if (!(await runsContainerd(createFiles(), buildPaths(dataDir)))) return [];
  return withContainerd(dataDir, listAddedNames);
}

/** @throws AppError with IMAGE_NAME_INVALID, IMAGE_SOURCE_INVALID, CONTAINERD_FAILED, and those of withContainerd */
export async function addImage(image: ImageToAdd): Promise<MachineImage> {
  fullReference(image.name); // rejects a wrong name before a containerd is started
  return withContainerd(image.dataDir, (access) => addImageTo(access, image));
}

/** @throws AppError with RUNTIME_IMAGE_MISSING, IMAGE_IN_USE, IMAGE_NAME_INVALID and those of withContainerd */
export async function removeImage(dataDir: string, name: string): Promise<void> {
  removableReference(name); // rejects a wrong name before a containerd is started
  await withContainerd(dataDir, (access) => removeImageFrom(access, name));
}
