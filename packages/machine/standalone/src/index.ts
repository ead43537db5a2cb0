// SPDX-License-Identifier: Apache-2.0
// The public door of standalone. Each command loads only what it needs.
import type { ApiServerRun } from "./api-server.ts";
import type { MachineProcess, MachineProcesses } from "./describe.ts";
import type { DownOptions } from "./down.ts";
import type { MachineImage } from "./images/image-store.ts";
import type { ImageToAdd } from "./images/images.ts";
import type { RestoreOptions, Restored } from "./restore.ts";
import type { UpOptions } from "./up.ts";

export type {
  ApiServerRun,
  DownOptions,
  ImageToAdd,
  MachineImage,
  MachineProcess,
  MachineProcesses,
  RestoreOptions,
  Restored,
  UpOptions,
};

/**
 * Brings everything up and returns when it is ready. A machine that is up already is left alone.
 * @throws AppError with STANDALONE_NOT_ROOT, STANDALONE_SETTING_INVALID, RUNTIME_START_FAILED
 */
export async function up(options: UpOptions): Promise<void> {
  const door = await import("./up.ts");
  await door.up(options);
}

/**
 * Takes the machine down; one that is not up is success.
 * @throws AppError with STANDALONE_NOT_ROOT, STANDALONE_NOT_FOUND, STANDALONE_NOT_OURS, STANDALONE_STOP_FAILED
 */
export async function down(options: DownOptions): Promise<void> {
  const door = await import("./down.ts");
  await door.down(options);
}

/**
 * What runs of a machine; nothing is changed.
 * @throws AppError with OS_FILE_FAILED for whoever may not read its data directory
 */
export async function describeMachine(dataDir: string): Promise<MachineProcesses> {
  const door = await import("./describe.ts");
  return door.describeMachine(dataDir);
}

/**
 * Runs the API server in this process until it is told to stop; writes the administrator's kubeconfig.
 * @throws AppError with STORE_UNUSABLE, APISERVER_LISTEN_FAILED, APISERVER_TLS_INVALID
 */
export async function runApiServer(run: ApiServerRun): Promise<void> {
  const door = await import("./api-server.ts");
  await door.runApiServer(run);
}

/**
 * Replaces all objects of a machine whose API server does not run by those of a backup.
 * @throws AppError with STORE_BACKUP_INVALID, STORE_UNUSABLE or STORE_WRITE_FAILED
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const door = await import("./restore.ts");
  return door.restore(options);
}

/**
 * Adds an image, in the place of what had the name.
 * @throws AppError with IMAGE_NAME_INVALID, IMAGE_SOURCE_INVALID, STANDALONE_NOT_ROOT, CONTAINERD_FAILED
 */
export async function addImage(image: ImageToAdd): Promise<MachineImage> {
  const door = await import("./images/images.ts");
  return door.addImage(image);
}

/**
 * Images of the machine, sorted by reference; none when there is no machine.
 * @throws AppError with STANDALONE_NOT_ROOT, CONTAINERD_FAILED
 */
export async function listImages(dataDir: string): Promise<readonly MachineImage[]> {
  const door = await import("./images/images.ts");
  return door.listImages(dataDir);
}

/** Names of the images that people added to a machine whose containerd runs; none of one that is down. */
export async function listRunningImages(dataDir: string): Promise<readonly string[]> {
  const door = await import("./images/images.ts");
  return door.listRunningImages(dataDir);
}

/**
 * Removes an image; who uses it is for the caller to ask.
 * @throws AppError with RUNTIME_IMAGE_MISSING, IMAGE_IN_USE, IMAGE_NAME_INVALID, STANDALONE_NOT_ROOT, CONTAINERD_FAILED
 */
export async function removeImage(dataDir: string, name: string): Promise<void> {
  const door = await import("./images/images.ts");
  await door.removeImage(dataDir, name);
}
