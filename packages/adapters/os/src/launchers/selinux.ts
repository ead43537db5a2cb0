// SPDX-License-Identifier: Apache-2.0
// What containers of a node with SELinux may use: the type of their files, and no categories, which are one pod's.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@patchbay/core/errors";
import { errnoOf, isMissing, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";

/** Source: KubeVirt, selinux.go, and container-selinux, `container_file_t`. */
const TYPE = "container_file_t";
const LABEL = `system_u:object_r:${TYPE}:s0`;
/** Source: xattr(7), the kernel's XATTR_NAME_SELINUX. */
const ATTRIBUTE = "security.selinux";

/** What a kernel says of SELinux. */
export interface Selinux {
  /** `off`: the kernel has none, or it is switched off. */
  readonly mode: "off" | "permissive" | "enforcing";
  /** Whether its policy has the type of containers' files; false where it is off. */
  readonly knowsContainers: boolean;
}

function isOn(selinuxDir: string): boolean {
  return existsSync(join(selinuxDir, "enforce"));
}

/** Whoever writes a label there is told whether the policy has it; nothing changes. Source: libselinux, check_context.c. */
function knowsLabel(selinuxDir: string): boolean {
  try {
    writeFileSync(join(selinuxDir, "context"), LABEL);
    return true;
  } catch (error) {
    if (errnoOf(error) === "EINVAL") return false;
    throw error;
  }
}

/** @throws AppError with OS_FILE_FAILED, for example for want of the right to ask */
export function readSelinux(selinuxDir: string): Selinux {
  try {
    const mode = readFileSync(join(selinuxDir, "enforce"), "utf8").trim();
    const knowsContainers = knowsLabel(selinuxDir);
    return { mode: mode === "0" ? "permissive" : "enforcing", knowsContainers };
  } catch (error) {
    if (isMissing(error)) return { mode: "off", knowsContainers: false };
    throw toFileError(error, "SELinux", selinuxDir);
  }
}

/**
 * Lets containers use what the path leads to, where the kernel has SELinux (`selinuxDir` is its file system); else it does
 * nothing.
 * @throws AppError with OS_PATH_REFUSED where the policy has no such type; an error of the system
 */
export function labelForContainers(path: string, selinuxDir: string): void {
  if (!isOn(selinuxDir)) return;
  try {
    osNative().setAttribute(path, ATTRIBUTE, LABEL);
  } catch (error) {
    if (errnoOf(error) !== "EINVAL") throw error;
    const reason = `SELinux is on, and its policy has no type ${TYPE}: install container-selinux on the node`;
    throw new AppError("OS_PATH_REFUSED", { path, reason }, { cause: error });
  }
}
