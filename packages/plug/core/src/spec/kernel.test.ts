// SPDX-License-Identifier: Apache-2.0
// Where are kernel and initrd, in their image and in the launcher?
import { expect, test } from "vitest";
import { launcherPathOf, kernelFilesOf } from "./kernel.ts";

test.each([
  { given: {}, kernel: "/vmlinuz", initrd: undefined },
  { given: { kernelPath: "", initrdPath: "" }, kernel: "/vmlinuz", initrd: undefined },
  { given: { kernelPath: "linux" }, kernel: "/linux", initrd: undefined },
  { given: { kernelPath: "//a/./linux", initrdPath: "/b//i" }, kernel: "/a/linux", initrd: "/b/i" },
  {
    given: { kernelPath: "../../etc/x", initrdPath: "/a/../../b" },
    kernel: "/etc/x",
    initrd: "/b",
  },
])("of $given the kernel is $kernel, the initrd $initrd", ({ given, kernel, initrd }) => {
  const container = { image: "guest", ...given };
  expect(kernelFilesOf({ firmware: { kernelBoot: { container } } })).toEqual({ kernel, initrd });
});

test("without any image the kernel has its usual name", () => {
  expect(kernelFilesOf({})).toEqual({ kernel: "/vmlinuz", initrd: undefined });
  expect(launcherPathOf("/boot/linux")).toBe("/run/kernel-boot/boot/linux");
});
