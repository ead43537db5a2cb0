// SPDX-License-Identifier: Apache-2.0
// Which machine does a VMI ask for, and with how much memory?
import { names } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import {
  isOnRootComplex,
  buildMachine,
  countVcpus,
  computeMemoryMiB,
  toLauncherPath,
  listKernelFiles,
} from "./machine.ts";

describe("the machine type", () => {
  test.each([
    { name: "is q35 by default", domain: {}, want: "q35" },
    { name: "is q35 for an empty name", domain: { machine: { type: "" } }, want: "q35" },
    { name: "is the requested type", domain: { machine: { type: "pc" } }, want: "pc" },
  ])("$name", ({ domain, want }) => {
    expect(buildMachine(domain)).toBe(want);
  });
});

describe("a guest has", () => {
  test.each([
    { name: "one vCPU by default", cpu: undefined, want: 1 },
    { name: "a vCPU for each thread", cpu: { cores: 2, sockets: 3, threads: 5 }, want: 30 },
  ])("$name", ({ cpu, want }) => {
    expect(countVcpus(cpu === undefined ? {} : { cpu })).toBe(want);
  });

  test.each([
    { name: "256 MiB by default", domain: {}, want: 256 },
    { name: "its guest memory", domain: { memory: { guest: "1Gi" } }, want: 1024 },
    {
      name: "its memory request if it sets no guest memory",
      domain: { resources: { requests: { memory: "512Mi" } } },
      want: 512,
    },
    {
      name: "its guest memory rather than its memory request",
      domain: { memory: { guest: "1Gi" }, resources: { requests: { memory: "2Gi" } } },
      want: 1024,
    },
    { name: "whole MiB, rounded down", domain: { memory: { guest: "2097151" } }, want: 1 },
    { name: "256 MiB if it requests only CPUs", domain: { resources: {} }, want: 256 },
    {
      name: "an unknown amount if the value is unparseable",
      domain: { memory: { guest: "much" } },
      want: 0,
    },
    {
      name: "256 MiB if it requests only other resources",
      domain: { resources: { requests: {} } },
      want: 256,
    },
  ])("$name", ({ domain, want }) => {
    expect(computeMemoryMiB(domain)).toBe(want);
  });
});

describe("devices are placed on the root complex", () => {
  test.each([
    { annotations: { [names.ROOT_COMPLEX_ANNOTATION]: "true" }, want: true },
    { annotations: { [names.ROOT_COMPLEX_ANNOTATION]: "false" }, want: false },
    { annotations: {}, want: false },
    { annotations: undefined, want: false },
  ])("by the annotation: $annotations", ({ annotations, want }) => {
    const vmi = aVmi();
    const metadata = { ...vmi.metadata, ...(annotations === undefined ? {} : { annotations }) };
    expect(isOnRootComplex({ ...vmi, metadata })).toBe(want);
  });
});

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
])(
  "kernel files for $given are kernel $kernel and initrd $initrd",
  ({ given: input, kernel, initrd }) => {
    const container = { image: "guest", ...input };
    expect(listKernelFiles({ firmware: { kernelBoot: { container } } })).toEqual({
      kernel,
      initrd,
    });
  },
);

test("the kernel has its default path without an image", () => {
  expect(listKernelFiles({})).toEqual({ kernel: "/vmlinuz", initrd: undefined });
  expect(toLauncherPath("/boot/linux")).toBe("/run/kernel-boot/boot/linux");
});
