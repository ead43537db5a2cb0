// SPDX-License-Identifier: Apache-2.0
// Sets the SELinux type of container files. Sets no categories, because they would restrict a file to one pod.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@patchbay/base";
import { errnoOf, isMissing, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";

/** SELinux type of container files. Source: KubeVirt, selinux.go; container-selinux, `container_file_t` */
const CONTAINER_FILE_TYPE = "container_file_t";
const CONTAINER_FILE_LABEL = `system_u:object_r:${CONTAINER_FILE_TYPE}:s0`;
/** Source: xattr(7), XATTR_NAME_SELINUX */
const LABEL_ATTRIBUTE = "security.selinux";

export interface Selinux {
  /** Mode of SELinux. `off` if the kernel lacks SELinux or SELinux is disabled. */
  readonly mode: "off" | "permissive" | "enforcing";
  /** Whether the SELinux policy contains the type of container files. False if SELinux is off. */
  readonly hasContainerType: boolean;
}

function isEnabled(selinuxDir: string): boolean {
  return existsSync(join(selinuxDir, "enforce"));
}

/** Checks whether the policy contains the label. The kernel rejects an unknown label with EINVAL. Source: libselinux, check_context.c */
function isLabelInPolicy(selinuxDir: string): boolean {
  try {
    writeFileSync(join(selinuxDir, "context"), CONTAINER_FILE_LABEL);
    return true;
  } catch (error) {
    if (errnoOf(error) === "EINVAL") return false;
    throw error;
  }
}

/** @throws AppError with OS_FILE_FAILED, for example without permission */
export function readSelinux(selinuxDir: string): Selinux {
  try {
    const mode = readFileSync(join(selinuxDir, "enforce"), "utf8").trim();
    const hasContainerType = isLabelInPolicy(selinuxDir);
    return { mode: mode === "0" ? "permissive" : "enforcing", hasContainerType };
  } catch (error) {
    if (isMissing(error)) return { mode: "off", hasContainerType: false };
    throw toFileError(error, "SELinux", selinuxDir);
  }
}

/**
 * Labels a file if SELinux is on. `selinuxDir` is the mount point of selinuxfs. @throws AppError with OS_PATH_REFUSED
 * if the policy lacks the type. @throws other errors of setxattr(2)
 */
export function labelForContainers(path: string, selinuxDir: string): void {
  if (!isEnabled(selinuxDir)) return;
  try {
    osNative().setAttribute(path, LABEL_ATTRIBUTE, CONTAINER_FILE_LABEL);
  } catch (error) {
    if (errnoOf(error) !== "EINVAL") throw error;
    const reason = `SELinux is on, and its policy has no type ${CONTAINER_FILE_TYPE}: install container-selinux on the node`;
    throw new AppError("OS_PATH_REFUSED", { path, reason }, { cause: error });
  }
}
