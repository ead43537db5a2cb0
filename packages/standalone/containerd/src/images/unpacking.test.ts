// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import {
  parseLayerBytes,
  parseLayerImage,
  listUnpacking,
  parseUnpackingKeys,
} from "./unpacking.ts";

const KEY = "extract-209846897-6vD6 sha256:2d71";

test("distinguishes layers being unpacked from layers of containers", () => {
  const listing = `KEY            PARENT KIND
${KEY}        Active
0f35c1         sha256:77 Active
sha256:77      Committed
`;
  expect(parseUnpackingKeys(listing)).toEqual([KEY]);
});

test.each<{ name: string; labels: unknown; want: string | undefined }>([
  {
    name: "that CRI unpacks",
    labels: { "containerd.io/snapshot/cri.image-ref": "reg.example/a:1" },
    want: "reg.example/a:1",
  },
  { name: "that another client unpacks", labels: { other: "x" }, want: undefined },
  { name: "without labels", labels: null, want: undefined },
])("the image of a layer $name", ({ labels, want }) => {
  expect(parseLayerImage(JSON.stringify({ Name: KEY, Labels: labels }))).toBe(want);
});

test("parses a size next to a key that contains a space", () => {
  expect(parseLayerBytes(`KEY   SIZE      INODES\n${KEY} 294981632 2      \n`)).toBe(294981632);
  expect(parseLayerBytes("KEY SIZE INODES\n")).toBe(0);
});

const OTHER = "extract-1-a sha256:9";
const LISTING = `KEY PARENT KIND\n${KEY} Active\n${OTHER} Active\n`;
const INFO = JSON.stringify({ Labels: { "containerd.io/snapshot/cri.image-ref": "r/a:1" } });

/** A containerd whose tool answers so to the last words of its command. */
function listed(answers: Readonly<Record<string, Partial<CommandResult>>>) {
  const runner = createFakeProcessRunner({
    ctr: ({ argv }: Command) => {
      const words = argv.slice(5).join(" ");
      const found = answers[words.replace("snapshots --snapshotter native ", "")];
      return found ?? { exitCode: 1, stderr: `ctr: ${words}: not found` };
    },
  });
  return listUnpacking({ runner, layout: { socket: "/s" } }, "native");
}

test("lists each layer with its image and size unless it is complete meanwhile", async () => {
  const layers = await listed({
    ls: { stdout: LISTING },
    [`info ${KEY}`]: { stdout: INFO },
    [`usage -b ${KEY}`]: { stdout: `KEY SIZE INODES\n${KEY}   7 2\n` },
    [`info ${OTHER}`]: { stdout: "{}" },
  });
  expect(layers).toEqual([{ key: KEY, reference: "r/a:1", bytes: 7 }]);
});

test("reports a tool that is missing or cannot list", async () => {
  await expect(listed({})).rejects.toMatchObject({ code: "CONTAINERD_FAILED" });
  const failing = createFakeProcessRunner({
    ctr: ({ argv }: Command) => {
      if (argv.at(-1) === "ls") return { stdout: LISTING };
      throw new AppError("OS_PROGRAM_MISSING", { program: "ctr" });
    },
  });
  const deps = { runner: failing, layout: { socket: "/s" } };
  await expect(listUnpacking(deps, "native")).rejects.toMatchObject({ code: "OS_PROGRAM_MISSING" });
});
