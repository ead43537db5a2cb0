// SPDX-License-Identifier: Apache-2.0
// `patchbay backup`: writes objects, keys, settings and claims of a machine into one archive, also while its VMs run.
import { basename, dirname, join, resolve } from "node:path";
import { backUpStore } from "@patchbay/apiserver";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { AppError, messageOf, printFormat } from "@patchbay/base";
import { isMountPoint } from "@patchbay/containerd";
import type { Files, InheritedFd, ProcessRunner } from "@patchbay/core/interfaces";
import { createKubeClient, loadKubeConfig } from "@patchbay/kube";
import { createClock, createFiles, createProcessRunner, renameFile } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { isRoot, printProgress, readBuild } from "./config.ts";
import { rejectUnmarked } from "./data-dir/ownership.ts";
import { buildPaths, type Paths } from "./data-dir/paths.ts";
import { lockBackup, thawClaims } from "./host/leftovers.ts";
import { listAddedImages } from "./images/images.ts";
import { findSupervisor } from "./supervisor/state.ts";

export const MACHINE_FORMAT = { name: "patchbay-machine", version: 1 } as const;
export const MANIFEST = "patchbay-machine.json";
export const OBJECTS = "objects.backup";

export interface BackupOptions {
  readonly dataDir: string;
  /** Path of the archive, which replaces an existing file when it is complete. */
  readonly file: string;
  readonly print?: (line: string) => void;
}

export interface BackedUp {
  readonly objects: number;
  readonly volumes: readonly string[];
  /** Names of images that users added. The archive does not contain them. Unset if containerd does not list them. */
  readonly images?: readonly string[];
}

interface Deps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly paths: Paths;
  readonly print: (line: string) => void;
  readonly archive: string;
  readonly workDir: string;
  readonly lock: InheritedFd;
}

const TAR_TIMEOUT_MS = 6 * 3_600_000;
const FREEZE_MAX_SECONDS = 600;
const PRIVATE_MODE = 0o700;
const ARCHIVE_MODE = 0o600;
const MKTEMP_TIMEOUT_MS = 10_000;
const MKTEMP_LETTERS = "XXXXXX";

async function readObjects({ files, paths }: Deps): Promise<string> {
  if ((await findSupervisor(files, paths)) === undefined) return backUpStore(paths.store);
  const config = await loadKubeConfig({ kubeconfig: paths.kubeconfig });
  const logger = createSilentLogger();
  const client = createKubeClient(config, { logger, clock: createClock(), component: "backup" });
  try {
    return (await client.requestRaw({ method: "GET", path: "/backup" })).text;
  } finally {
    await client.close();
  }
}

/** Lists the PersistentVolumes among the objects whose files exist. A volume that is being created has no file yet. */
export async function listVolumes(
  { files, paths }: Pick<Deps, "files" | "paths">,
  objects: string,
): Promise<readonly string[]> {
  const names = objects.split("\n").flatMap((line) => {
    const entry = parseJson(line);
    const object = isJsonObject(entry) ? entry["object"] : undefined;
    if (!isJsonObject(object) || object["kind"] !== "PersistentVolume") return [];
    const metadata = object["metadata"];
    const name = isJsonObject(metadata) ? metadata["name"] : undefined;
    return typeof name === "string" && /^pvc-[0-9a-f-]+$/.test(name) ? [name] : [];
  });
  const found = await Promise.all(
    names.map((name) => files.exists(join(paths.claims, name, "volume.img"))),
  );
  return names.filter((_, index) => found[index] === true).toSorted();
}

type VolumeUse = "unused" | "mounted" | "device";

async function findUse({ files, paths }: Deps, volume: string): Promise<VolumeUse> {
  const directory = join(paths.claims, volume);
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  if (isMountPoint(mountinfo, join(directory, "mount"))) return "mounted";
  return (await files.list(join(directory, "users"))).length === 0 ? "unused" : "device";
}

/**
 * Copies a volume. Arguments: use, mount point, image, clone, archive, data directory, path of the image below it. The shell thaws the file
 * system also when `patchbay` is killed, and before the runner's deadline. Until then it holds the lock, its descriptor 3, which programs
 * that can outlive it do not inherit. Exit code 3: the volume changed; 4: no clone is possible.
 */
const COPY_SCRIPT = `set -eu
use=$1 mount=$2 image=$3 clone=$4 archive=$5 data=$6 member=$7
append() { "$@" tar --append --sparse --file="$archive" --directory="$data" "$member" 3>&-; }
trap 'exit 1' INT TERM
if [ "$use" = mounted ]; then
  trap 'fsfreeze --unfreeze "$mount" 2>/dev/null || :' EXIT
  message=$(fsfreeze --freeze "$mount" 2>&1) ||
    case $message in
      *"Read-only file system"*) use=unused ;;
      *) echo "$message" >&2; exit 1 ;;
    esac
fi
if [ "$use" != unused ] && cp --reflink=always "$image" "$clone" 2>/dev/null 3>&-; then exit 0; fi
rm -f "$clone"
[ "$use" != device ] || exit 4
if [ "$use" = mounted ]; then append timeout ${String(FREEZE_MAX_SECONDS)}; exit; fi
before=$(stat -c '%.Y' "$image")
append env
[ "$(stat -c '%.Y' "$image")" = "$before" ] || exit 3`;

const COPY_PROBLEMS: Readonly<Record<number, string>> = {
  3: "a pod began to use it meanwhile; repeat the backup",
  4: "it is a block device in use, and its file system cannot clone files; stop its VM during the backup",
  124: `it was not copied within ${String(FREEZE_MAX_SECONDS)} s, while its writes waited; stop its VM during the backup`,
};

async function runTar({ runner }: Deps, ...args: readonly string[]): Promise<void> {
  const argv = ["tar", ...args] as const;
  const { exitCode, stderr } = await runner.run({ argv, timeoutMs: TAR_TIMEOUT_MS });
  if (exitCode === 0) return;
  throw new AppError("OS_PROGRAM_FAILED", { program: "tar", exitCode, stderr: stderr.trim() });
}

async function addVolume(deps: Deps, volume: string): Promise<void> {
  const { files, runner, paths, archive, lock, print } = deps;
  const use = await findUse(deps, volume);
  const directory = join(paths.claims, volume);
  const member = join("claims", volume, "volume.img");
  // Only a clone in the same file system shares the image's blocks.
  const clone = join(directory, "volume.img.clone");
  const image = join(directory, "volume.img");
  const args = [use, join(directory, "mount"), image, clone, archive, paths.dataDir, member];
  const { exitCode, stderr } = await runner.run({
    argv: ["sh", "-c", COPY_SCRIPT, "copy", ...args],
    inheritFds: [lock],
    timeoutMs: TAR_TIMEOUT_MS,
  });
  if (exitCode !== 0) {
    const reason = `volume ${volume}: ${COPY_PROBLEMS[exitCode] ?? stderr.trim()}`;
    throw new AppError("STANDALONE_BACKUP_FAILED", { reason });
  }
  if (await files.exists(clone)) {
    const rename = `--transform=s,.*,${member},`;
    const source = [`--directory=${directory}`, basename(clone)];
    const options = ["--append", "--sparse", `--file=${archive}`, rename];
    try {
      await runTar(deps, ...options, ...source);
    } finally {
      await files.remove(clone);
    }
  }
  print(`volume ${volume} is copied${use === "mounted" ? ", its writes waited meanwhile" : ""}`);
}

async function findImages({ paths, print }: Deps): Promise<Pick<BackedUp, "images">> {
  try {
    return { images: await listAddedImages(paths.dataDir) };
  } catch (error) {
    print(`names of the machine's images are not in the backup: ${messageOf(error)}`);
    return {};
  }
}

async function writeArchive(deps: Deps): Promise<BackedUp> {
  const { files, paths, archive, workDir, print } = deps;
  const objects = await readObjects(deps);
  const volumes = await listVolumes(deps, objects);
  const images = await findImages(deps);
  const createdAtMs = createClock().now();
  const format = printFormat(MACHINE_FORMAT);
  const manifest = { format, ...readBuild(), createdAtMs, volumes, ...images };
  await files.writeAtomic(join(workDir, MANIFEST), `${JSON.stringify(manifest)}\n`, ARCHIVE_MODE);
  await files.writeAtomic(join(workDir, OBJECTS), objects, ARCHIVE_MODE);
  await files.writeAtomic(archive, "", ARCHIVE_MODE);
  await runTar(deps, "--create", `--file=${archive}`, `--directory=${workDir}`, MANIFEST, OBJECTS);
  const own = ["standalone.json", "pki"];
  await runTar(deps, "--append", `--file=${archive}`, `--directory=${paths.dataDir}`, ...own);
  const count = objects.split("\n").filter((line) => line !== "").length - 2; // Without the first and the last line.
  print(`${String(count)} objects, keys and settings are copied`);
  for (const volume of volumes) await addVolume(deps, volume);
  return { objects: count, volumes, ...images };
}

/** Makes a directory that only root can read and change, also beside an archive in a directory of all users. */
async function makeWorkDirectory(
  { files, runner }: Pick<Deps, "files" | "runner">,
  file: string,
): Promise<string> {
  const [directory, prefix] = [dirname(file), `.${basename(file)}.work-`];
  await files.ensureDirectory(directory, PRIVATE_MODE);
  const leftovers = (await files.list(directory)).filter(
    (name) => name.startsWith(prefix) && name.length === prefix.length + MKTEMP_LETTERS.length,
  );
  for (const name of leftovers) await files.remove(join(directory, name));
  const argv = ["mktemp", "--directory", join(directory, `${prefix}${MKTEMP_LETTERS}`)] as const;
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: MKTEMP_TIMEOUT_MS });
  if (exitCode === 0) return stdout.replace(/\n$/, "");
  throw new AppError("OS_PROGRAM_FAILED", { program: "mktemp", exitCode, stderr: stderr.trim() });
}

async function backUpTo(
  file: string,
  given: Pick<Deps, "files" | "runner" | "paths" | "print" | "lock">,
): Promise<BackedUp> {
  const { files, runner, paths } = given;
  await thawClaims(given);
  const workDir = await makeWorkDirectory(given, file);
  const archive = join(workDir, "archive.tar");
  try {
    const done = await writeArchive({ ...given, archive, workDir });
    await runner.run({ argv: ["sync", archive], timeoutMs: TAR_TIMEOUT_MS });
    await renameFile(archive, file);
    const record = { file, atMs: createClock().now() };
    await files.writeAtomic(paths.backupRecord, `${JSON.stringify(record)}\n`);
    return done;
  } catch (error) {
    await thawClaims(given).catch(() => undefined); // The first error is reported.
    throw error;
  } finally {
    await files.remove(workDir);
  }
}

export async function backUp(options: BackupOptions): Promise<BackedUp> {
  if (!isRoot()) throw new AppError("STANDALONE_NOT_ROOT");
  const files = createFiles();
  const paths = buildPaths(options.dataDir);
  await rejectUnmarked({ files, paths });
  await files.ensureDirectory(paths.run, PRIVATE_MODE);
  const lock = lockBackup(paths);
  if (!("release" in lock)) {
    const reason = `another backup of this machine has not ended, process ${lock.holderPid}`;
    throw new AppError("STANDALONE_BACKUP_FAILED", { reason });
  }
  const { print = printProgress } = options;
  const deps = { files, runner: createProcessRunner(), paths, print, lock: lock.descriptor };
  try {
    return await backUpTo(resolve(options.file), deps);
  } catch (error) {
    if (error instanceof AppError && error.code !== "OS_PROGRAM_FAILED") throw error;
    throw new AppError("STANDALONE_BACKUP_FAILED", { reason: messageOf(error) }, { cause: error });
  } finally {
    lock.release();
  }
}
