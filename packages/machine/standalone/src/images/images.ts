// SPDX-License-Identifier: Apache-2.0
// The images of a machine, whether it is up or not.
import { fullReference } from "@patchbay/containerd";
import { createFiles } from "@patchbay/os";
import { pathsOf } from "../data-dir/paths.ts";
import {
  addTo,
  listAdded,
  listMeasured,
  removableReference,
  removeFrom,
  type MachineImage,
  type NewImage,
} from "./image-store.ts";
import { runsContainerd, withContainerd } from "./with-containerd.ts";

/** What to add. */
export interface ImageToAdd extends NewImage {
  /** Absolute. */
  readonly dataDir: string;
}

/** Images of the machine, sorted by reference; none when there is no machine. */
export async function listImages(dataDir: string): Promise<readonly MachineImage[]> {
  if (!(await createFiles().exists(pathsOf(dataDir).containerd))) return [];
  return withContainerd(dataDir, listMeasured);
}

/** Names of the images that people added, while containerd runs; for completion, which must not start one. */
export async function listRunningImages(dataDir: string): Promise<readonly string[]> {
  if (!(await runsContainerd(createFiles(), pathsOf(dataDir)))) return [];
  return withContainerd(dataDir, listAdded);
}

/**
 * Adds an image, in the place of what had the name.
 * @throws AppError with IMAGE_NAME_INVALID, IMAGE_SOURCE_INVALID, CONTAINERD_FAILED, and those of withContainerd
 */
export async function addImage(image: ImageToAdd): Promise<MachineImage> {
  fullReference(image.name); // a wrong name is refused before a containerd is started
  return withContainerd(image.dataDir, (access) => addTo(access, image));
}

/**
 * Removes an image.
 * @throws AppError with RUNTIME_IMAGE_MISSING, IMAGE_IN_USE, IMAGE_NAME_INVALID, CONTAINERD_FAILED, and those of
 * withContainerd
 */
export async function removeImage(dataDir: string, name: string): Promise<void> {
  removableReference(name); // before a containerd is started
  await withContainerd(dataDir, (access) => removeFrom(access, name));
}
