// SPDX-License-Identifier: Apache-2.0
// Resource limits of processes: cgroup limits and the OOM score. Cgroups v1 and v2 may be mounted together.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { errnoOf, toFileError } from "../files/file-errors.ts";

interface GroupLimits {
  readonly memoryBytes: number;
  readonly processes: number;
}

interface Hierarchy {
  readonly mount: string;
  readonly isUnified: boolean;
  readonly controllers: readonly string[];
}

type Controller = "memory" | "pids";
const CONTROLLERS: readonly Controller[] = ["memory", "pids"];

/** Returns the name of the limit's file. Source: Linux admin-guide, cgroup-v1/memory.rst, pids.rst, cgroup-v2.rst */
function limitFile(controller: Controller, { isUnified }: Hierarchy): string {
  if (controller === "pids") return "pids.max";
  return isUnified ? "memory.max" : "memory.limit_in_bytes";
}

async function readControllers(mount: string): Promise<readonly string[]> {
  const text = await readFile(join(mount, "cgroup.controllers"), "utf8").catch(() => "");
  return text.trim().split(" ");
}

/** Lists the mounted cgroup hierarchies. Source: proc(5) mountinfo */
async function listHierarchies(mountinfo: string): Promise<readonly Hierarchy[]> {
  const hierarchies: Hierarchy[] = [];
  for (const line of mountinfo.split("\n")) {
    const [mountFields = "", filesystem = ""] = line.split(" - ");
    const mount = mountFields.split(" ")[4] ?? "";
    const [type = "", , options = ""] = filesystem.split(" ");
    const isUnified = type === "cgroup2";
    const controllers = isUnified ? await readControllers(mount) : options.split(",");
    if (isUnified || type === "cgroup") hierarchies.push({ mount, isUnified, controllers });
  }
  return hierarchies;
}

function listAncestors(path: string, mount: string): readonly string[] {
  const parts = relative(mount, dirname(path)).split(sep);
  return parts.map((_, index) => join(mount, ...parts.slice(0, index + 1)));
}

async function writeLimit(
  hierarchy: Hierarchy,
  group: string,
  limit: readonly [Controller, number],
) {
  const [controller, maximum] = limit;
  const path = join(hierarchy.mount, group);
  const file = join(path, limitFile(controller, hierarchy));
  try {
    await mkdir(path, { recursive: true });
    if (hierarchy.isUnified) {
      // A cgroup has the files of a controller only if all its ancestors enable the controller.
      for (const parent of new Set([hierarchy.mount, ...listAncestors(path, hierarchy.mount)])) {
        await writeFile(join(parent, "cgroup.subtree_control"), `+${controller}`);
      }
    }
    await writeFile(file, String(maximum));
  } catch (error) {
    throw toFileError(error, "write", file);
  }
}

/** Limits a cgroup. Idempotent. Returns the controllers that are not available. @throws AppError with OS_FILE_FAILED */
export async function limitControlGroup(
  group: string,
  { memoryBytes, processes }: GroupLimits,
  mountinfo?: string,
): Promise<readonly string[]> {
  const text = mountinfo ?? (await readFile("/proc/self/mountinfo", "utf8"));
  const hierarchies = await listHierarchies(text);
  const missing: string[] = [];
  for (const controller of CONTROLLERS) {
    const hierarchy = hierarchies.find(({ controllers }) => controllers.includes(controller));
    const maximum = controller === "memory" ? memoryBytes : processes;
    if (hierarchy === undefined) missing.push(controller);
    else await writeLimit(hierarchy, group, [controller, maximum]);
  }
  return missing;
}

/** File of the OOM score, from -1000 (never killed) to 1000 (killed first). Source: proc(5) oom_score_adj */
const OOM_SCORE_FILE = "/proc/self/oom_score_adj";

/** Sets the OOM score. Returns false if the score is lower than before and CAP_SYS_RESOURCE is missing. */
export async function setOomScore(score: number): Promise<boolean> {
  try {
    await writeFile(OOM_SCORE_FILE, String(score));
    return true;
  } catch (error) {
    if (errnoOf(error) === "EACCES") return false;
    throw toFileError(error, "write", OOM_SCORE_FILE);
  }
}
