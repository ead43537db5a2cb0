// SPDX-License-Identifier: Apache-2.0
// Paths of the kernel and initrd, in their image and in the launcher.
import { names, type VmiSpec } from "@patchbay/api";

/** KubeVirt has no default. Source: KubeVirt KernelBootContainer. */
const DEFAULT_KERNEL = "vmlinuz";

interface KernelFiles {
  /** Absolute, without `.` and `..`. */
  readonly kernel: string;
  readonly initrd: string | undefined;
}

/** Resolves a path against the image's root. `..` never leaves the root. */
export function resolveFromRoot(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

function isNonEmpty(path: string | undefined): path is string {
  return path !== undefined && path !== "";
}

export function kernelFilesOf({ firmware }: VmiSpec["domain"]): KernelFiles {
  const container = firmware?.kernelBoot?.container;
  const { kernelPath, initrdPath } = container ?? {};
  return {
    kernel: resolveFromRoot(isNonEmpty(kernelPath) ? kernelPath : DEFAULT_KERNEL),
    initrd: isNonEmpty(initrdPath) ? resolveFromRoot(initrdPath) : undefined,
  };
}

export function launcherPathOf(path: string): string {
  return `${names.KERNEL_BOOT_DIR}${path}`;
}
