// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { readManifest } from "./measure-image.ts";
import { PullProgress } from "./images.ts";

function indexOf(...platforms: readonly (readonly [string, string])[]): string {
  const manifests = platforms.map(([architecture, digest]) => ({
    digest,
    platform: { os: "linux", architecture },
  }));
  return JSON.stringify({ schemaVersion: 2, manifests });
}

describe("size of a manifest", () => {
  test.each([
    {
      name: "of an image includes its config and layers",
      text: JSON.stringify({ config: { size: 5 }, layers: [{ size: 10 }, { size: 20 }] }),
      want: { kind: "image", bytes: 35 },
    },
    {
      name: "of several platforms selects this machine's manifest",
      text: indexOf(["arm64", "a"], ["amd64", "b"]),
      want: { kind: "index", manifestDigest: "b" },
    },
    {
      name: "of other platforms selects no manifest",
      text: indexOf(["arm64", "a"]),
      want: { kind: "index", manifestDigest: undefined },
    },
    {
      name: "without a platform is for all",
      text: JSON.stringify({ manifests: [{ digest: "c" }] }),
      want: { kind: "index", manifestDigest: "c" },
    },
    { name: "that is invalid is 0", text: "text", want: { kind: "image", bytes: 0 } },
  ])("$name", ({ text, want }) => {
    expect(readManifest(text, "amd64")).toEqual(want);
  });
});

describe("the progress of a pull", () => {
  // As ctr 1.6.20 prints it, in pieces.
  const table = (seconds: string, total: string): string =>
    `layer-sha256:78c8:    downloading    |++--|  1.0 MiB/1.9 MiB \nelapsed: ${seconds} s    total:  ${total} (1.2 MiB/s)   \n`;

  test("prints a line per second", () => {
    const lines: string[] = [];
    const progress = new PullProgress((line) => lines.push(line));
    const said = [
      table("0.1", "563.0 "),
      table("0.9", "563.0 "),
      table("1.0", "563.0 "),
      table("1.1", "0.5 Mi"),
      table("12.3", "1.9 Gi"),
    ].join("");
    for (let at = 0; at < said.length; at += 7) progress.read(said.slice(at, at + 7));
    expect(lines).toEqual(["    1.0 s  563.0 B fetched", "   12.3 s  1.9 GiB fetched"]);
  });
});
