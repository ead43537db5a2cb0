// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import {
  parseHostIp,
  readIdentity,
  readMachine,
  type MachineFacts,
  runProgram,
} from "./machine.ts";

function link(flag: string, ...addresses: readonly (readonly [string, string])[]) {
  return {
    flags: [flag, "UP"],
    addr_info: addresses.map(([local, scope]) => ({ local, scope })),
  };
}

const LOOPBACK = link("LOOPBACK", ["127.0.0.1", "host"], ["10.96.0.10", "global"]);

test.each([
  {
    name: "the first global address, except Service addresses",
    links: [
      LOOPBACK,
      link("BROADCAST", ["192.0.2.7", "global"]),
      link("BROADCAST", ["10.88.0.1", "global"]),
    ],
    want: "192.0.2.7",
  },
  {
    name: "no link-local address",
    links: [link("BROADCAST", ["169.254.3.4", "link"]), link("BROADCAST", ["192.0.2.8", "global"])],
    want: "192.0.2.8",
  },
  {
    name: "ignores a link without addresses",
    links: [{}, link("UP", ["192.0.2.9", "global"])],
    want: "192.0.2.9",
  },
  {
    name: "the loopback address without a NIC",
    links: [LOOPBACK, link("BROADCAST")],
    want: "127.0.0.1",
  },
])("the machine's address: $name", ({ links, want }) => {
  expect(parseHostIp(JSON.stringify(links))).toBe(want);
});

test("the address of a machine without links is the loopback address", () => {
  expect(parseHostIp("")).toBe("127.0.0.1");
});

async function filesWith(texts: Readonly<Record<string, string>>) {
  const files = createFakeFiles();
  for (const [path, text] of Object.entries(texts)) await files.writeAtomic(path, text);
  return files;
}

describe("a machine's identity", () => {
  const runtimeIdentity = { architecture: "x64", runtimeVersion: "fake://1" };
  const bootId = { "/proc/sys/kernel/random/boot_id": "b\n" };
  const nameless = { ...runtimeIdentity, bootId: "b", hostIp: "192.0.2.7", osImage: "Linux" };
  const links = JSON.stringify([link("UP", ["192.0.2.7", "global"])]);
  const runner = createFakeProcessRunner({ ip: () => ({ stdout: links }) });

  test("is read from small files of the kernel and the distribution", async () => {
    const files = await filesWith({
      ...bootId,
      "/etc/machine-id": "m\n",
      "/sys/class/dmi/id/product_uuid": "u\n",
      "/proc/sys/kernel/osrelease": "6.1.0\n",
      "/etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian 12"\nID=debian\n',
    });
    expect(await readIdentity({ files, runner }, runtimeIdentity)).toEqual({
      ...nameless,
      osImage: "Debian 12",
      machineId: "m",
      systemUuid: "u",
      kernelVersion: "6.1.0",
    });
  });

  test.each([
    { name: "no file", text: undefined, want: "Linux" },
    { name: "no PRETTY_NAME line", text: "ID=x\n", want: "Linux" },
    { name: "no quotation marks", text: "PRETTY_NAME=Alpine\nID=x\n", want: "Alpine" },
    { name: "a key that only ends with PRETTY_NAME", text: 'OLD_PRETTY_NAME="a"', want: "Linux" },
    { name: "text after the quotation marks", text: 'PRETTY_NAME="a" b', want: "Linux" },
  ])("contains its distribution, with $name", async ({ text, want }) => {
    const files = await filesWith({
      ...bootId,
      ...(text !== undefined && { "/etc/os-release": text }),
    });
    expect(await readIdentity({ files, runner }, runtimeIdentity)).toEqual({
      ...nameless,
      osImage: want,
      machineId: "",
      systemUuid: "",
      kernelVersion: "",
    });
  });
});

describe("a machine's facts", () => {
  const FILES: Readonly<Record<string, string>> = {
    "/proc/meminfo": "XMemTotal: 1 kB\nMemTotal:     2048 kB\nMemAvailable:   1024 kB\nX: 1 kB\n",
    "/proc/cpuinfo": "processor\t: 0\nmodel : a processor : 7\n\nprocessor\t: 1\n",
    "/proc/loadavg": "0.1 0.1 0.1 1/234 4711\n",
    "/proc/sys/kernel/threads-max": "30000\n",
    "/proc/sys/kernel/pid_max": "32768\n",
    "/cni/10-default.conf": "{}",
  };
  const WANT: MachineFacts = {
    cpus: 2,
    memoryKiB: 2048,
    memoryAvailableKiB: 1024,
    diskKiB: 2 ** 30,
    diskFreeKiB: 2 ** 29,
    threads: 234,
    threadsMax: 30_000,
    devices: ["vhost-user.patchbay.io/sockets"],
    hasDefaultNetwork: true,
    runtimeProblem: undefined,
  };
  const away = () =>
    Promise.reject(new AppError("CRI_UNAVAILABLE", { call: "Status", reason: "it is gone" }));

  test.each<{
    name: string;
    texts?: Readonly<Record<string, string>>;
    problem?: () => Promise<string | undefined>;
    want: object;
  }>([
    { name: "reports the kernel's values", want: {} },
    {
      name: "reports a PID limit below the thread limit",
      texts: { "/proc/sys/kernel/pid_max": "4096" },
      want: { threadsMax: 4096 },
    },
    {
      name: "reports one CPU if cpuinfo lists none",
      texts: { "/proc/cpuinfo": "" },
      want: { cpus: 1 },
    },
    {
      name: "omits values that the kernel does not report",
      texts: { "/proc/meminfo": "Cached: 1 kB\n" },
      want: { memoryKiB: 0, memoryAvailableKiB: 0 },
    },
    {
      name: "reports devices",
      texts: { "/dev/kvm": "", "/dev/vhost-net": "" },
      want: {
        devices: [
          "vhost-user.patchbay.io/sockets",
          "devices.kubevirt.io/kvm",
          "devices.kubevirt.io/vhost-net",
        ],
      },
    },
    {
      name: "reports a runtime that is not ready",
      problem: () => Promise.resolve("no CNI"),
      want: { runtimeProblem: "no CNI" },
    },
    {
      name: "reports a runtime that does not respond",
      problem: away,
      want: { runtimeProblem: expect.stringContaining("it is gone") as unknown },
    },
  ])("$name", async ({ texts = {}, problem, want }) => {
    const files = await filesWith({ ...FILES, ...texts });
    const runtime = problem === undefined ? createFakeContainerRuntime() : { findProblem: problem };
    const facts = await readMachine({ files, runtime, podsDir: "/pods", cniConfDir: "/cni" });
    expect(facts).toEqual({ ...WANT, ...want });
  });

  test.each([
    { file: "10-default.conflist", want: true },
    { file: "10-default.conf.bak", want: false },
    { file: "README", want: false },
  ])("$file configures a default network: $want", async ({ file, want }) => {
    const files = await filesWith({ [`/cni/${file}`]: "" });
    const runtime = createFakeContainerRuntime();
    const facts = await readMachine({ files, runtime, podsDir: "/pods", cniConfDir: "/cni" });
    expect(facts.hasDefaultNetwork).toBe(want);
  });
});

test("returns the output of a program, with a timeout of ten seconds", async () => {
  const runner = createFakeProcessRunner({ blkid: () => ({ stdout: "ext4\n" }) });
  expect(await runProgram(runner, "blkid", "-o", "value")).toBe("ext4\n");
  expect(runner.commands).toEqual([{ argv: ["blkid", "-o", "value"], timeoutMs: 10_000 }]);
});

test("reports a failed program with its first arguments, exit code and output", async () => {
  const runner = createFakeProcessRunner({
    mount: () => ({ exitCode: 32, stdout: "half", stderr: " no such device\n" }),
  });
  await expect(runProgram(runner, "mount", "-t", "ext4", "/dev/x")).rejects.toMatchObject({
    code: "OS_PROGRAM_FAILED",
    details: { program: "mount -t ext4", exitCode: 32, stderr: "no such device" },
  });
});
