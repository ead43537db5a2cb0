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
    { name: "is q35 where none is named", domain: {}, want: "q35" },
    { name: "is q35 where the name is empty", domain: { machine: { type: "" } }, want: "q35" },
    { name: "is the one that is named", domain: { machine: { type: "pc" } }, want: "pc" },
  ])("$name", ({ domain, want }) => {
    expect(buildMachine(domain)).toBe(want);
  });
});

describe("a guest has", () => {
  test.each([
    { name: "one vCPU where nothing is said", cpu: undefined, want: 1 },
    { name: "a vCPU for each thread", cpu: { cores: 2, sockets: 3, threads: 5 }, want: 30 },
  ])("$name", ({ cpu, want }) => {
    expect(countVcpus(cpu === undefined ? {} : { cpu })).toBe(want);
  });

  test.each([
    { name: "256 MiB where nothing is said", domain: {}, want: 256 },
    { name: "what it asks for", domain: { memory: { guest: "1Gi" } }, want: 1024 },
    {
      name: "what is kept for it, where it asks for nothing",
      domain: { resources: { requests: { memory: "512Mi" } } },
      want: 512,
    },
    {
      name: "what it asks for, not what is kept for it",
      domain: { memory: { guest: "1Gi" }, resources: { requests: { memory: "2Gi" } } },
      want: 1024,
    },
    { name: "whole MiB, rounded down", domain: { memory: { guest: "2097151" } }, want: 1 },
    { name: "256 MiB where only processors are kept", domain: { resources: {} }, want: 256 },
    { name: "none where that cannot be read", domain: { memory: { guest: "much" } }, want: 0 },
    {
      name: "256 MiB where only others are kept",
      domain: { resources: { requests: {} } },
      want: 256,
    },
  ])("$name", ({ domain, want }) => {
    expect(computeMemoryMiB(domain)).toBe(want);
  });
});

describe("devices sit on the root complex", () => {
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
])("of $given the kernel is $kernel, the initrd $initrd", ({ given: input, kernel, initrd }) => {
  const container = { image: "guest", ...input };
  expect(listKernelFiles({ firmware: { kernelBoot: { container } } })).toEqual({ kernel, initrd });
});

test("without any image the kernel has its usual name", () => {
  expect(listKernelFiles({})).toEqual({ kernel: "/vmlinuz", initrd: undefined });
  expect(toLauncherPath("/boot/linux")).toBe("/run/kernel-boot/boot/linux");
});
