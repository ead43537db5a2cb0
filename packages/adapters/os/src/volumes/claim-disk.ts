// SPDX-License-Identifier: Apache-2.0
// Implements ClaimDisk with sparse files, which are mounted as ext4 images or attached to loop devices.
import { constants } from "node:fs";
import { open, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { AppError } from "@patchbay/base";
import type { ClaimDisk, ClaimSize, ProcessRunner } from "@patchbay/core/interfaces";
import { deviceNumbersOf } from "../files/device-nodes.ts";
import { isMissing, toFileError } from "../files/file-errors.ts";
import { listLoopDevices, listMounts } from "./mounts.ts";

const MEBIBYTE = 2 ** 20;
const BLOCK_BYTES = 4096;
const INODE_BYTES = 256;
/** Ratio of the data's size to the space for ext4's inodes, bitmaps and extent trees. */
const OVERHEAD_DIVISOR = 24;
const OVERHEAD_BYTES = 2 * MEBIBYTE;
/** Minimum size of a file system: 2048 blocks of 4 KiB and a journal of 4 MiB. Source: mke2fs */
const FILE_SYSTEM_BYTES_MIN = 12 * MEBIBYTE;

/** Returns the size of the journal in MiB. More than 64 would be of no use, because only one guest uses the file system. */
function journalMib(sizeBytes: number): number {
  if (sizeBytes < 128 * MEBIBYTE) return 4;
  return sizeBytes < 1024 * MEBIBYTE ? 16 : 64;
}

/** Returns the size to which the claim's sparse file can grow. */
export function computeFileBytes({ kind, sizeBytes }: ClaimSize): number {
  const metadataBytes =
    sizeBytes / OVERHEAD_DIVISOR + OVERHEAD_BYTES + journalMib(sizeBytes) * MEBIBYTE;
  const bytes =
    kind === "device" ? sizeBytes : Math.max(FILE_SYSTEM_BYTES_MIN, sizeBytes + metadataBytes);
  return Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
}

/** Returns the bytes per inode: mke2fs's default, and more above 256 GiB, because tables of more than 2^24 inodes would allocate much. */
function bytesPerInode({ sizeBytes }: ClaimSize): number {
  return Math.min(65_536, Math.max(16_384, Math.floor(sizeBytes / 2 ** 24)));
}

/** Returns the size of the journal, inode tables, and bitmaps and descriptors (1/4096), which are at the beginning of the file system. */
function computeMetadataBytes(size: ClaimSize): number {
  const tableBytes = computeFileBytes(size) * (INODE_BYTES / bytesPerInode(size) + 1 / 4096);
  const bytes = tableBytes + journalMib(size.sizeBytes) * MEBIBYTE + OVERHEAD_BYTES;
  return Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
}

export function formatArguments(size: ClaimSize): readonly string[] {
  return [
    "-q",
    "-F",
    "-t",
    "ext4",
    "-b",
    String(BLOCK_BYTES),
    "-i",
    String(bytesPerInode(size)),
    "-I",
    String(INODE_BYTES),
    // The pod may use all blocks, so none is reserved for root.
    "-m",
    "0",
    "-O",
    "^resize_inode",
    "-J",
    `size=${String(journalMib(size.sizeBytes))}`,
    "-E",
    "packed_meta_blocks=1,lazy_itable_init=1,lazy_journal_init=1,nodiscard",
  ];
}

/** `discard` frees the blocks of deleted data. `noinit_itable` does not zero the inode tables, because a sparse file reads as zeros. */
const MOUNT_OPTIONS = "loop,nosuid,nodev,noatime,discard,noinit_itable,errors=remount-ro";

const COMMAND_TIMEOUT_MS = 60_000;
/** Time limit of a journal replay or of a walk over all files, in milliseconds. */
const CHECK_TIMEOUT_MS = 600_000;
const UNCORRECTED_EXIT_CODE = 4;

class HostClaimDisk implements ClaimDisk {
  readonly #runner: ProcessRunner;

  constructor(runner: ProcessRunner) {
    this.#runner = runner;
  }

  async make(file: string, size: ClaimSize): Promise<void> {
    if (await exists(file)) return;
    const temporary = `${file}.tmp`;
    try {
      await rm(temporary, { force: true });
      await makeSparseFile(temporary, computeFileBytes(size));
      if (size.kind === "files") await this.#makeFileSystem(temporary, size);
      await syncPath(temporary);
      await rename(temporary, file);
      await syncPath(dirname(file));
    } catch (error) {
      await rm(temporary, { force: true });
      throw toFileError(error, "make claim", file);
    }
  }

  async mount(
    file: string,
    { directory, group }: { readonly directory: string; readonly group?: number },
  ): Promise<void> {
    await requireExisting(file, "mount");
    if (!(await listMounts(directory)).includes(directory)) {
      // A file that has a loop device is already mounted in another mount namespace, and e2fsck must not check a mounted file system.
      if ((await listLoopDevices(this.#runner, file)).length === 0) await this.#check(file);
      await this.#run("mkdir", "--parents", "--mode=0750", directory);
      await this.#run("mount", "-t", "ext4", "-o", MOUNT_OPTIONS, file, directory);
    }
    if (group !== undefined) await this.#changeGroup(group, directory);
  }

  async attach(file: string): Promise<string> {
    await requireExisting(file, "attach");
    // `--nooverlap` reuses an existing loop device, because the caches of two devices for one file would not be coherent.
    const { stdout } = await this.#run("losetup", "--nooverlap", "--find", "--show", file);
    const device = stdout.trim();
    await requireLoopDevice(device, file);
    return device;
  }

  async release(file: string, directory: string): Promise<void> {
    if ((await listMounts(directory)).includes(directory)) await this.#run("umount", directory);
    // Detaches only loop devices without autoclear. The kernel detaches the others itself, and may already have reused their names.
    const devices = (await listLoopDevices(this.#runner, file)).filter(
      ({ isPermanent }) => isPermanent,
    );
    for (const { name } of devices) await this.#run("losetup", "--detach", name);
  }

  /** Allocates the metadata, because ext4 becomes read-only until the next mount if a full disk has no space for the journal. */
  async #makeFileSystem(file: string, size: ClaimSize): Promise<void> {
    await this.#run("mke2fs", ...formatArguments(size), file);
    await this.#run("fallocate", "--posix", "--length", String(computeMetadataBytes(size)), file);
  }

  /** Replays the journal and makes safe repairs. An administrator must decide on other repairs. */
  async #check(file: string): Promise<void> {
    const argv = ["e2fsck", "-p", file] as const;
    const { exitCode, stdout } = await this.#runner.run({ argv, timeoutMs: CHECK_TIMEOUT_MS });
    if (exitCode < UNCORRECTED_EXIT_CODE) return;
    const message = stdout.trim().split("\n").at(-1) ?? "";
    const reason = `the file system in it is damaged (${message}): copy the file, then run e2fsck on it`;
    throw new AppError("OS_FILE_FAILED", { call: "mount", path: file, reason });
  }

  /**
   * Makes `group` the group of all files, and permits the group to read and write them, as the kubelet does for fsGroup. Does nothing if
   * the directory already has the group. Source: Kubernetes volume_linux.go SetVolumeOwnership
   */
  async #changeGroup(group: number, directory: string): Promise<void> {
    const { gid } = await stat(directory);
    if (gid === group) return;
    const findBelow = ["find", directory, "-xdev"];
    const changeOwner = ["-exec", "chgrp", "--no-dereference", String(group), "{}", "+"];
    const changeDirectories = ["-type", "d", "-exec", "chmod", "ug+rwx,g+s", "{}", "+"];
    const changeFiles = ["-type", "f", "-exec", "chmod", "ug+rw", "{}", "+"];
    await this.#run(...findBelow, "-mindepth", "1", ...changeOwner);
    await this.#run(
      ...findBelow,
      "-mindepth",
      "1",
      "(",
      ...changeDirectories,
      ")",
      "-o",
      "(",
      ...changeFiles,
      ")",
    );
    // The directory gets the group last, because its group shows that all files have the group.
    await this.#run("chmod", "2775", directory);
    await this.#run("chgrp", String(group), directory);
  }

  async #run(...argv: readonly string[]): Promise<{ readonly stdout: string }> {
    const [program = "", ...args] = argv;
    const isWalk = program === "find";
    const timeoutMs = isWalk ? CHECK_TIMEOUT_MS : COMMAND_TIMEOUT_MS;
    const result = await this.#runner.run({ argv: [program, ...args], timeoutMs });
    const { exitCode, stderr } = result;
    if (exitCode === 0) return result;
    throw new AppError("OS_PROGRAM_FAILED", { program, exitCode, stderr: stderr.trim() });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw toFileError(error, "stat", path);
  }
}

async function requireExisting(path: string, call: string): Promise<void> {
  if (await exists(path)) return;
  const reason = "it does not exist: restore it from a backup, or delete the claim";
  throw new AppError("OS_FILE_FAILED", { call, path, reason });
}

/** Checks that the device belongs to this file, because a container runtime accepts any device at the path. */
async function requireLoopDevice(device: string, file: string): Promise<void> {
  try {
    await using handle = await open(device, constants.O_RDONLY | constants.O_NOFOLLOW);
    const status = await handle.stat();
    const numbers = deviceNumbersOf(status).join(":");
    const source = `/sys/dev/block/${numbers}/loop/backing_file`;
    const backingFile = status.isBlockDevice() ? (await readFile(source, "utf8")).trim() : "";
    if (backingFile === (await realpath(file))) return;
  } catch (error) {
    throw toFileError(error, "attach", device);
  }
  const reason = `it is not the device of ${file}`;
  throw new AppError("OS_FILE_FAILED", { call: "attach", path: device, reason });
}

async function makeSparseFile(path: string, bytes: number): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.truncate(bytes);
  } finally {
    await file.close();
  }
}

async function syncPath(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Creates the adapter, which requires root privileges and loop devices. */
export function createClaimDisk({ runner }: { readonly runner: ProcessRunner }): ClaimDisk {
  return new HostClaimDisk(runner);
}
