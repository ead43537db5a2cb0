// SPDX-License-Identifier: Apache-2.0
// What containers of a node with SELinux may use: the type of their files, and no categories, which are one pod's.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { osNative } from "../native.ts";

/** Source: KubeVirt, selinux.go, and container-selinux, `container_file_t`. */
const LABEL = "system_u:object_r:container_file_t:s0";
/** Source: xattr(7), the kernel's XATTR_NAME_SELINUX. */
const ATTRIBUTE = "security.selinux";

/**
 * Lets containers use what the path leads to, where the kernel has SELinux (`selinuxDir` is its file system); else it does
 * nothing.
 */
export function labelForContainers(path: string, selinuxDir: string): void {
  if (existsSync(join(selinuxDir, "enforce"))) osNative().setAttribute(path, ATTRIBUTE, LABEL);
}
