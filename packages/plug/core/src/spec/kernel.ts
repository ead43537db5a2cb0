// SPDX-License-Identifier: Apache-2.0
// Where kernel and initrd of a guest are, in their image and in the launcher.
import { names, type VmiSpec } from "@patchbay/api";

/** Source: KubeVirt KernelBootContainer, where the field has no default. */
const DEFAULT_KERNEL = "vmlinuz";

/** Paths in the image of the kernel. */
interface KernelFiles {
  /** Absolute, without `.` and `..`: as a program sees it whose root is the image. */
  readonly kernel: string;
  /** Like `kernel`; undefined: there is none. */
  readonly initrd: string | undefined;
}

/** The path as it is resolved from the root, which has no parent; absolute. */
export function fromRoot(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

function isGiven(path: string | undefined): path is string {
  return path !== undefined && path !== "";
}

/** Which files of the image of `firmware.kernelBoot.container` the guest is booted from. */
export function kernelFilesOf({ firmware }: VmiSpec["domain"]): KernelFiles {
  const container = firmware?.kernelBoot?.container;
  const { kernelPath, initrdPath } = container ?? {};
  return {
    kernel: fromRoot(isGiven(kernelPath) ? kernelPath : DEFAULT_KERNEL),
    initrd: isGiven(initrdPath) ? fromRoot(initrdPath) : undefined,
  };
}

/** Where a file of the image is in the launcher, however it came there. */
export function inLauncher(path: string): string {
  return `${names.KERNEL_BOOT_DIR}${path}`;
}
