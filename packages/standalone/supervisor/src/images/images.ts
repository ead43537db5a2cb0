// SPDX-License-Identifier: Apache-2.0
// Image commands, which also work while the machine is down.
import { fullReference } from "@patchbay/containerd";
import { createFiles } from "@patchbay/os";
import { buildPaths } from "../data-dir/paths.ts";
import {
  addImageTo,
  listAddedNames,
  listImagesWithSizes,
  expandRemovableReference,
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
  return withContainerd(dataDir, listImagesWithSizes);
}

/** Lists the names of added images for shell completion. Does not start containerd; the list is empty if containerd does not run. */
export async function listRunningImages(dataDir: string): Promise<readonly string[]> {
  if (!(await runsContainerd(createFiles(), buildPaths(dataDir)))) return [];
  return withContainerd(dataDir, listAddedNames);
}

export async function listAddedImages(dataDir: string): Promise<readonly string[]> {
  if (!(await createFiles().exists(buildPaths(dataDir).containerd))) return [];
  return withContainerd(dataDir, listAddedNames);
}

/** @throws AppError with IMAGE_NAME_INVALID, IMAGE_SOURCE_INVALID, CONTAINERD_FAILED, or an error code of {@link withContainerd} */
export async function addImage(image: ImageToAdd): Promise<MachineImage> {
  fullReference(image.name); // Rejects an invalid name before containerd is started.
  return withContainerd(image.dataDir, (access) => addImageTo(access, image));
}

/** @throws AppError with RUNTIME_IMAGE_MISSING, IMAGE_IN_USE, IMAGE_NAME_INVALID, or an error code of {@link withContainerd} */
export async function removeImage(dataDir: string, name: string): Promise<void> {
  expandRemovableReference(name); // Rejects an invalid name, and the names of Patchbay's own images, before containerd is started.
  await withContainerd(dataDir, (access) => removeImageFrom(access, name));
}
