// SPDX-License-Identifier: Apache-2.0
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { archiveDirectory, buildLayoutFiles } from "./archive-directory.ts";
import { PullProgress } from "./images.ts";
import { createHash } from "node:crypto";

const SUM = "c".repeat(64);
const image = { source: "/src", workDirectory: "/w", architecture: "amd64" };

function setUp(failing: string[] = []) {
  const files = createFakeFiles();
  const run = ({ argv }: Command): Partial<CommandResult> => {
    if (failing.includes(argv[0])) return { exitCode: 2, stderr: "tar: x: Permission denied\n" };
    return { stdout: { sha256sum: `${SUM}  f\0`, stat: "7\n" }[argv[0]] ?? "" };
  };
  const runner = createFakeProcessRunner({ tar: run, sha256sum: run, stat: run, mv: run });
  const commands = () => runner.commands.map(({ argv }) => argv.join(" "));
  return { files, runner, commands };
}

test.each([
  { owner: undefined, want: "0" },
  { owner: 107, want: "107" },
])("archives a directory as one layer, with files of user $want", async (row) => {
  const { files, runner, commands } = setUp();
  const own = row.owner === undefined ? {} : { owner: row.owner };
  expect(await archiveDirectory({ files, runner }, { ...image, ...own })).toBe("/w/image.tar");
  expect(commands()).toEqual([
    `tar --sort=name --mtime=@0 --numeric-owner --mode=a+rX,go-w,ug-s --format=posix --pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f --owner=${row.want} --group=${row.want} -cf /w/layer.tar -C /src .`,
    "sha256sum --zero /w/layer.tar",
    "stat --format=%s /w/layer.tar",
    `mv /w/layer.tar /w/layout/blobs/sha256/${SUM}`,
    "tar -cf /w/image.tar --remove-files -C /w/layout oci-layout index.json blobs",
  ]);
  expect(runner.commands[0]?.timeoutMs).toBe(3_600_000);
  const index = JSON.parse((await files.readText("/w/layout/index.json")) ?? "") as {
    readonly manifests: readonly { readonly digest: string }[];
  };
  const blob = async (digest = ""): Promise<string> =>
    (await files.readText(`/w/layout/blobs/${digest.replace(":", "/")}`)) ?? "";
  const manifest = JSON.parse(await blob(index.manifests[0]?.digest)) as object;
  expect(manifest).toMatchObject({ layers: [{ digest: `sha256:${SUM}`, size: 7 }] });
});

test("reports an unreadable directory, with the next step", async () => {
  const { files, runner } = setUp(["tar"]);
  await expect(archiveDirectory({ files, runner }, image)).rejects.toThrow(
    /\/src.*Permission denied; it cannot be read/,
  );
});

test("prints the progress of a pull once a second, independent of chunk sizes", () => {
  const lines: string[] = [];
  const progress = new PullProgress((line) => lines.push(line));
  const row = (seconds: string, amount: string): string =>
    `layer: done\nelapsed: ${seconds} s    total:  ${amount} (1.0 MiB/s)\r`;
  const text = [
    row("0.5", "1.0"),
    row("1.2", "2.0 Ki"),
    row("1.9", "3.0 Mi"),
    row("12.0", "4.0 Gi"),
    "x elapsed: 13.0 s total: 9.0 Gi (\n",
    "elapsed: 14.0 s",
  ].join("");
  for (const letter of text) progress.read(letter);
  progress.read(" total: 5.0 (1 MiB/s)\n");
  expect(lines).toEqual([
    "    1.2 s  2.0 KiB fetched",
    "   12.0 s  4.0 GiB fetched",
    "   14.0 s  5.0 B fetched",
  ]);
});

function digestOf(text: string): string {
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

interface Described {
  readonly digest: string;
  readonly size: number;
}

test("writes each blob at the path and with the size in its descriptor", () => {
  const layer = { digest: digestOf("layer"), bytes: 10_240 };
  const files = buildLayoutFiles(layer, "arm64", digestOf);
  const textOf = ({ digest, size }: Described): string => {
    const text = files[`blobs/sha256/${digest.slice("sha256:".length)}`] ?? "";
    expect(digestOf(text)).toBe(digest);
    expect(text).toHaveLength(size);
    return text;
  };
  const index = JSON.parse(files["index.json"] ?? "") as { manifests: [Described] };
  const manifest = JSON.parse(textOf(index.manifests[0])) as {
    config: Described;
    layers: readonly Described[];
  };
  expect(manifest.layers).toEqual([
    { mediaType: "application/vnd.oci.image.layer.v1.tar", digest: layer.digest, size: 10_240 },
  ]);
  expect(JSON.parse(textOf(manifest.config))).toEqual({
    architecture: "arm64",
    os: "linux",
    config: {},
    rootfs: { type: "layers", diff_ids: [layer.digest] },
  });
  expect(buildLayoutFiles(layer, "arm64", digestOf)).toEqual(files);
});
