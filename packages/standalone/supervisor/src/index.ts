// SPDX-License-Identifier: Apache-2.0
// Commands of a standalone machine. Each command loads only the modules that it needs.
import type { ApiServerRun } from "./api-server.ts";
import type { BackedUp, BackupOptions } from "./backup.ts";
import type { MachineProcess, MachineProcesses } from "./describe.ts";
import type { DownOptions } from "./down.ts";
import type { MachineImage } from "./images/image-store.ts";
import type { ImageToAdd } from "./images/images.ts";
import type { RestoreOptions, Restored } from "./restore.ts";
import type { UpOptions } from "./up.ts";
import type { UpgradeOptions, Upgraded } from "./upgrade.ts";

export type {
  ApiServerRun,
  BackedUp,
  BackupOptions,
  DownOptions,
  ImageToAdd,
  MachineImage,
  MachineProcess,
  MachineProcesses,
  RestoreOptions,
  Restored,
  UpgradeOptions,
  Upgraded,
  UpOptions,
};

/**
 * Starts the machine and returns when it is ready. Does nothing if the machine is up.
 * @throws AppError with STANDALONE_NOT_ROOT, STANDALONE_SETTING_INVALID, CONTAINERD_PATH_TOO_LONG, RUNTIME_START_FAILED
 */
export async function up(options: UpOptions): Promise<void> {
  const module = await import("./up.ts");
  await module.up(options);
}

/** Stops the machine if it is up. @throws STANDALONE_NOT_ROOT, STANDALONE_NOT_FOUND, STANDALONE_NOT_OURS, STANDALONE_STOP_FAILED */
export async function down(options: DownOptions): Promise<void> {
  const module = await import("./down.ts");
  await module.down(options);
}

/**
 * Replaces the services of a running machine by those of this program, while its pods run. Does nothing for a machine of the same build.
 * @throws AppError with STANDALONE_NOT_ROOT, STANDALONE_UPGRADE_REFUSED, STANDALONE_UPGRADE_FAILED
 */
export async function upgrade(options: UpgradeOptions): Promise<Upgraded> {
  const module = await import("./upgrade.ts");
  return module.upgrade(options);
}

/** Observes the machine's processes. @throws AppError with OS_FILE_FAILED for users who may not read the data directory */
export async function describeMachine(dataDir: string): Promise<MachineProcesses> {
  const module = await import("./describe.ts");
  return module.describeMachine(dataDir);
}

/**
 * Runs the API server in this process until it is stopped. Writes the administrator's kubeconfig.
 * @throws AppError with STORE_UNUSABLE, FORMAT_TOO_NEW, APISERVER_LISTEN_FAILED, APISERVER_TLS_INVALID
 */
export async function runApiServer(run: ApiServerRun): Promise<void> {
  const module = await import("./api-server.ts");
  await module.runApiServer(run);
}

/**
 * Writes objects, keys, settings and claims into an archive, also while VMs run.
 * @throws AppError with STANDALONE_NOT_ROOT, STANDALONE_NOT_OURS, STANDALONE_BACKUP_FAILED, STORE_UNUSABLE
 */
export async function backUp(options: BackupOptions): Promise<BackedUp> {
  const module = await import("./backup.ts");
  return module.backUp(options);
}

/**
 * Restores a machine from an archive, or replaces all objects with the objects of a backup. The machine's API server must not run.
 * @throws AppError with STORE_BACKUP_INVALID, STANDALONE_RESTORE_REFUSED, FORMAT_TOO_NEW, STORE_UNUSABLE, STORE_FULL or STORE_WRITE_FAILED
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const module = await import("./restore.ts");
  return module.restore(options);
}

/**
 * Adds an image. Replaces an existing image of that name.
 * @throws AppError with IMAGE_NAME_INVALID, IMAGE_SOURCE_INVALID, STANDALONE_NOT_ROOT, CONTAINERD_FAILED
 */
export async function addImage(image: ImageToAdd): Promise<MachineImage> {
  const module = await import("./images/images.ts");
  return module.addImage(image);
}

/** Lists images sorted by reference; none without a machine. @throws AppError with STANDALONE_NOT_ROOT, CONTAINERD_FAILED */
export async function listImages(dataDir: string): Promise<readonly MachineImage[]> {
  const module = await import("./images/images.ts");
  return module.listImages(dataDir);
}

/** Lists names of images that users added. Returns an empty list if containerd does not run. */
export async function listRunningImages(dataDir: string): Promise<readonly string[]> {
  const module = await import("./images/images.ts");
  return module.listRunningImages(dataDir);
}

/**
 * Removes an image. The caller must check that no VM uses it.
 * @throws AppError with RUNTIME_IMAGE_MISSING, IMAGE_IN_USE, IMAGE_NAME_INVALID, STANDALONE_NOT_ROOT, CONTAINERD_FAILED
 */
export async function removeImage(dataDir: string, name: string): Promise<void> {
  const module = await import("./images/images.ts");
  await module.removeImage(dataDir, name);
}
