// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import {
  createFakeClock,
  createFakeFiles,
  createFakeProcessRunner,
  settle,
} from "@patchbay/os/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { probeKvm } from "./kvm-probe.ts";

const PATHS = buildPaths("/d");
const VIEW = `${PATHS.run}/guest-trial`;
const CACHE = `${PATHS.run}/kvm-probe.json`;
const digest = (letter: string): string => `sha256:${letter.repeat(64)}`;
const SOFTWARE = "guests are emulated in software";

let files = createFakeFiles();
let clock = createFakeClock();
/** Images with the files that they hold. */
let images: Record<string, readonly string[]>;
/** What QEMU does. */
let guest: (command: Command) => Partial<CommandResult> | Promise<Partial<CommandResult>>;
let commands: string[];
let launcherImages: number;

beforeEach(async () => {
  files = createFakeFiles();
  clock = createFakeClock();
  images = { "r.example/guest:1": ["vmlinuz", "initrd"] };
  commands = [];
  launcherImages = 0;
  guest = ({ onOutput }) => {
    for (const piece of ["boot\nguest re", "ady\n"]) onOutput?.(piece);
    return new Promise(() => undefined);
  };
  await files.writeAtomic("/dev/kvm", "");
});

async function ctr(command: Command): Promise<Partial<CommandResult>> {
  const [what = "", verb = "", ...args] = command.argv.slice(5);
  if (what === "images" && verb === "ls") {
    const lines = Object.keys(images).map(
      (name, index) => `${name} type ${digest(String(index))} 1 B - -`,
    );
    return { stdout: ["REF TYPE DIGEST SIZE PLATFORMS LABELS", ...lines, ""].join("\n") };
  }
  if (what === "images" && verb === "mount") {
    const [name = "", path = ""] = args.slice(-2);
    for (const file of images[name] ?? []) await files.writeAtomic(`${path}/${file}`, "");
  }
  if (what !== "run") return {};
  commands.push(command.argv.slice(5).join(" "));
  return guest(command);
}

function probe(architecture = "x64") {
  const ok = (): Partial<CommandResult> => ({});
  const runner = createFakeProcessRunner({ ctr, mount: ok, umount: ok }, clock);
  return probeKvm({
    files,
    runner,
    paths: PATHS,
    bootId: "boot",
    architecture,
    launcherImage: () => {
      launcherImages += 1;
      return Promise.resolve();
    },
  });
}

const WORKS = { useEmulation: false, reason: "a guest boots under KVM: guests use KVM" };

test("enables KVM if a guest boots, and caches the result per boot and kernel", async () => {
  expect(await probe()).toEqual(WORKS);
  expect(JSON.parse((await files.readText(CACHE)) ?? "")).toEqual({
    bootId: "boot",
    digest: digest("0"),
    useEmulation: false,
    why: WORKS.reason,
  });
  expect(await probe()).toEqual(WORKS);
  expect([commands.length, launcherImages]).toEqual([1, 1]);
  expect(await files.exists(VIEW)).toBe(false);
  const [command = ""] = commands;
  for (const part of [
    `--mount type=bind,src=${VIEW},dst=/guest,options=rbind:ro --device /dev/kvm`,
    `${names.LAUNCHER_IMAGE} guest-trial qemu-system-x86_64 -accel kvm -machine q35 -cpu host`,
    "-kernel /guest/vmlinuz -initrd /guest/initrd -append console=ttyS0 quiet panic=-1",
  ]) {
    expect(command).toContain(part);
  }
});

test.each([
  { architecture: "arm64", want: "qemu-system-aarch64 -accel kvm -machine virt" },
  { architecture: "other", want: "qemu-system-x86_64 -accel kvm -machine q35" },
])("runs $want on $architecture", async ({ architecture, want }) => {
  await probe(architecture);
  expect(commands[0]).toContain(want);
});

describe("guests are emulated", () => {
  test("if the host has no KVM", async () => {
    await files.remove("/dev/kvm");
    expect(await probe()).toEqual({
      useEmulation: true,
      reason: `there is no /dev/kvm: ${SOFTWARE}`,
    });
    expect(commands).toEqual([]);
  });

  test("if a guest does not boot in time", async () => {
    guest = () => new Promise(() => undefined);
    const probing = probe();
    await settle();
    for (let turn = 0; turn < 20 && commands.length === 0; turn += 1) await settle();
    await clock.advance(15_000);
    const reason = `KVM does not work (a guest did not boot within 15 s): ${SOFTWARE}`;
    expect(await probing).toEqual({ useEmulation: true, reason });
    expect(JSON.parse((await files.readText(CACHE)) ?? "")).toMatchObject({ useEmulation: true });
    expect(await probe()).toEqual({ useEmulation: true, reason });
  });

  test.each([
    { name: "ends", result: () => ({}), reason: "QEMU ended" },
    {
      name: "fails",
      result: () => {
        throw new AppError("OS_TIMED_OUT", { program: "x", timeoutMs: 1 });
      },
      reason: "a guest did not boot within 15 s",
    },
    {
      name: "fails with a long message",
      result: () => {
        throw new Error("x".repeat(200));
      },
      reason: "x".repeat(100),
    },
  ])("if QEMU $name", async ({ result, reason }) => {
    guest = result;
    expect(await probe()).toEqual({
      useEmulation: true,
      reason: `KVM does not work (${reason}): ${SOFTWARE}`,
    });
  });

  test.each([
    {
      name: "no image has a kernel",
      given: { "r.example/a:1": ["initrd"], "r.example/b:1": ["vmlinuz"] },
    },
    {
      name: "only pod images are present",
      given: { [names.LAUNCHER_IMAGE]: ["vmlinuz", "initrd"] },
    },
    { name: "no image is present", given: {} },
  ])("if $name, without a cached result", async ({ given }) => {
    images = given;
    const { useEmulation, reason } = await probe();
    expect([useEmulation, reason]).toEqual([
      true,
      expect.stringContaining("no image contains vmlinuz"),
    ]);
    expect([await files.exists(CACHE), commands]).toEqual([false, []]);
  });
});

test("tries the first image with a kernel", async () => {
  images = {
    "r.example/a:1": ["initrd"],
    "r.example/b:1": ["vmlinuz", "initrd"],
    "r.example/c:1": ["vmlinuz", "initrd"],
  };
  await probe();
  expect(JSON.parse((await files.readText(CACHE)) ?? "")).toMatchObject({ digest: digest("1") });
  expect(commands).toHaveLength(1);
});

test.each([
  { name: "another boot", bootId: "other", of: "0" },
  { name: "a removed image", bootId: "boot", of: "9" },
])("ignores the cached result of $name", async ({ bootId, of }) => {
  const finding = { bootId, digest: digest(of), useEmulation: true, why: "old" };
  await files.writeAtomic(CACHE, JSON.stringify(finding));
  expect(await probe()).toEqual(WORKS);
});
