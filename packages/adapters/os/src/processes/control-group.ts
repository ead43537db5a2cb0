// SPDX-License-Identifier: Apache-2.0
// How much may everything in a control group take together? On control groups v1 and v2, and where a machine has both.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { toFileError } from "../files/file-errors.ts";

/** What a group and all groups in it may have. */
export interface GroupLimits {
  readonly memoryBytes: number;
  /** Processes and threads. */
  readonly processes: number;
}

/** Where something is limited. */
interface Hierarchy {
  readonly mount: string;
  readonly isUnified: boolean;
  /** For example `memory`. */
  readonly controllers: readonly string[];
}

type Controller = "memory" | "pids";
const CONTROLLERS: readonly Controller[] = ["memory", "pids"];

/** Source: Linux Documentation/admin-guide/cgroup-v1/memory.rst, pids.rst, cgroup-v2.rst */
function fileOf(controller: Controller, { isUnified }: Hierarchy): string {
  if (controller === "pids") return "pids.max";
  return isUnified ? "memory.max" : "memory.limit_in_bytes";
}

async function controllersOf(mount: string): Promise<readonly string[]> {
  const text = await readFile(join(mount, "cgroup.controllers"), "utf8").catch(() => "");
  return text.trim().split(" ");
}

/** Source: proc(5) mountinfo. */
async function listHierarchies(mountinfo: string): Promise<readonly Hierarchy[]> {
  const found: Hierarchy[] = [];
  for (const line of mountinfo.split("\n")) {
    const [mounted = "", filesystem = ""] = line.split(" - ");
    const mount = mounted.split(" ")[4] ?? "";
    const [type = "", , options = ""] = filesystem.split(" ");
    const isUnified = type === "cgroup2";
    const controllers = isUnified ? await controllersOf(mount) : options.split(",");
    if (isUnified || type === "cgroup") found.push({ mount, isUnified, controllers });
  }
  return found;
}

/** From the hierarchy's root down to `path`, without it. */
function above(path: string, mount: string): readonly string[] {
  const parts = relative(mount, dirname(path)).split(sep);
  return parts.map((_, index) => join(mount, ...parts.slice(0, index + 1)));
}

async function limit(hierarchy: Hierarchy, group: string, value: readonly [Controller, number]) {
  const [controller, most] = value;
  const path = join(hierarchy.mount, group);
  const file = join(path, fileOf(controller, hierarchy));
  try {
    await mkdir(path, { recursive: true });
    if (hierarchy.isUnified) {
      // A group has a controller's files once its parent has handed the controller down.
      for (const parent of new Set([hierarchy.mount, ...above(path, hierarchy.mount)])) {
        await writeFile(join(parent, "cgroup.subtree_control"), `+${controller}`);
      }
    }
    await writeFile(file, String(most));
  } catch (error) {
    throw toFileError(error, "write", file);
  }
}

/**
 * Makes the group (for example `/patchbay`) and sets its limits; repeated, it sets them anew. The names of controllers that
 * this machine does not have, whose limits are nobody's.
 * @throws AppError with OS_FILE_FAILED, for example while the group holds more than it may and none of it can be given back
 */
export async function limitControlGroup(
  group: string,
  { memoryBytes, processes }: GroupLimits,
  mountinfo?: string,
): Promise<readonly string[]> {
  const text = mountinfo ?? (await readFile("/proc/self/mountinfo", "utf8"));
  const hierarchies = await listHierarchies(text);
  const missing: string[] = [];
  for (const controller of CONTROLLERS) {
    const home = hierarchies.find(({ controllers }) => controllers.includes(controller));
    const most = controller === "memory" ? memoryBytes : processes;
    if (home === undefined) missing.push(controller);
    else await limit(home, group, [controller, most]);
  }
  return missing;
}
