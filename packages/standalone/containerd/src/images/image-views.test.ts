// SPDX-License-Identifier: Apache-2.0
// Views of images: which programs run, and how half-made views are removed.
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { beforeEach, expect, test } from "vitest";
import { createImageMounts, type ImageMounts } from "./image-views.ts";

const NAME = "docker.io/library/guest:latest";
const MISSING = { exitCode: 1, stderr: "ctr: snapshot /p: not found" };
const SHOWN = [
  `images mount --snapshotter overlayfs ${NAME} /p`,
  "mount -o remount,bind,ro,nosuid,nodev,noexec /p",
  "snapshots --snapshotter overlayfs label /p containerd.io/gc.root=shown",
];
const FORGOTTEN = ["snapshots --snapshotter overlayfs rm /p", "leases rm /p"];

let views: ImageMounts;
let calls: string[];
let isMounted: boolean;
/** Answers to the next calls of that beginning. */
let answers: [start: string, answer: Partial<CommandResult>][];
let deps: Parameters<typeof createImageMounts>[0];

function answer(call: string): Partial<CommandResult> {
  const index = answers.findIndex(([start]) => call.startsWith(start));
  const [found] = index < 0 ? [] : answers.splice(index, 1);
  return found?.[1] ?? {};
}

function run({ argv }: Command): Partial<CommandResult> {
  const call = (argv[0] === "ctr" ? argv.slice(5) : argv).join(" ");
  calls.push(call);
  if (call.startsWith("images ls")) return { stdout: `${NAME} t sha256:${"a".repeat(64)} 1\n` };
  const result = answer(call);
  if (call.startsWith("images mount") && result.exitCode === undefined) isMounted = true;
  if (call.startsWith("umount")) isMounted = false;
  return result;
}

beforeEach(() => {
  calls = [];
  answers = [];
  isMounted = false;
  const files = createFakeFiles();
  files.readText = (path) =>
    Promise.resolve(
      path === "/proc/self/mountinfo" && isMounted ? "1 0 0:1 / /p rw - overlay x rw\n" : undefined,
    );
  const runner = createFakeProcessRunner({ ctr: run, mount: run, umount: run });
  deps = { files, runner, layout: { socket: "/s", config: "/c" } };
  views = createImageMounts(deps);
});

test("an image is mounted, made harmless and kept, once", async () => {
  await views.mount("guest", "/p");
  expect(calls).toEqual(SHOWN);
  await views.mount("guest", "/p");
  expect(calls).toEqual(SHOWN);
});

test("completes a view that another process created", async () => {
  isMounted = true;
  await views.mount("guest", "/p");
  expect(calls).toEqual(SHOWN.slice(1));
});

test("a view that is unmounted meanwhile is mounted again", async () => {
  await views.mount("guest", "/p");
  isMounted = false;
  await views.mount("guest", "/p");
  expect(calls).toEqual([...SHOWN, ...SHOWN]);
});

test("replaces a view from before a reboot", async () => {
  answers.push(["images mount", { exitCode: 1, stderr: "ctr: already exists" }]);
  await views.mount("guest", "/p");
  expect(calls).toEqual([SHOWN[0], "images ls", ...FORGOTTEN, ...SHOWN]);
});

test("reports a missing image", async () => {
  answers.push(["images mount", MISSING]);
  await expect(views.mount("other", "/p")).rejects.toMatchObject({ code: "RUNTIME_IMAGE_MISSING" });
});

test("what is no name is no image", async () => {
  await expect(views.mount("A B", "/p")).rejects.toMatchObject({ code: "IMAGE_NAME_INVALID" });
});

test("creates a view without a snapshot again", async () => {
  isMounted = true;
  answers.push(["snapshots --snapshotter overlayfs label", MISSING]);
  await views.mount("guest", "/p");
  expect(calls).toEqual([...SHOWN.slice(1), "umount --lazy /p", ...FORGOTTEN, ...SHOWN]);
});

test.each([
  { start: "mount", result: { exitCode: 32, stderr: "busy" }, code: "OS_PROGRAM_FAILED" },
  { start: "snapshots", result: { exitCode: 1, stderr: "denied" }, code: "CONTAINERD_FAILED" },
])("deletes a view that cannot be completed: $start", async ({ start, result, code }) => {
  answers.push([start, result]);
  await expect(views.mount("guest", "/p")).rejects.toMatchObject({ code });
  const before = calls.length;
  await views.mount("guest", "/p");
  expect(calls.slice(before)).toEqual(SHOWN.slice(1));
});

test("a release unmounts and forgets; what is missing is released", async () => {
  await views.mount("guest", "/p");
  calls = [];
  await views.unmount("/p");
  expect(calls).toEqual(["umount --lazy /p", ...FORGOTTEN]);
  answers.push(["snapshots", MISSING], ["leases", MISSING]);
  await views.unmount("/p");
  expect(calls.slice(3)).toEqual(FORGOTTEN);
  answers.push(["leases", { exitCode: 1, stderr: "denied" }]);
  await expect(views.unmount("/p")).rejects.toThrow("denied");
});

test("a view that was released is made anew", async () => {
  await views.mount("guest", "/p");
  await views.unmount("/p");
  isMounted = true;
  calls = [];
  await views.mount("guest", "/p");
  expect(calls).toEqual(SHOWN.slice(1));
});
