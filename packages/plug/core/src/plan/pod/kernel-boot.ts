// SPDX-License-Identifier: Apache-2.0
// The guest's kernel: files of the image of `firmware.kernelBoot.container`.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import { kernelFilesOf } from "../../spec/kernel.ts";
import { pullPolicyOf, KERNEL_FILES, type ImageFiles } from "./image-files.ts";

/** Most that kernel and initrd take on disk; those of distributions have 30 to 150 MiB. */
const KERNEL_MIB = 512;

/** The files of the guest's kernel, if it is booted from one. */
export function kernelImageOf(vmi: VirtualMachineInstance): readonly ImageFiles[] {
  const boot = vmi.spec.domain.firmware?.kernelBoot?.container;
  if (boot === undefined) return [];
  const { kernel, initrd } = kernelFilesOf(vmi.spec.domain);
  return [
    {
      name: KERNEL_FILES,
      image: boot.image,
      pullPolicy: pullPolicyOf(boot.imagePullPolicy),
      pullSecret: boot.imagePullSecret,
      mountPath: names.KERNEL_BOOT_DIR,
      copy: { option: "--parents", files: [kernel, ...[initrd ?? []].flat()], mib: KERNEL_MIB },
    },
  ];
}
