// SPDX-License-Identifier: Apache-2.0
// Writes the Helm chart as a folder and as an archive. make has the usage.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { readBase } from "./base.ts";
import { CHART_NAME, renderChart } from "./chart.ts";
import { IMAGES, parseReference, type ReleasedImages } from "./values.ts";

process.umask(0o022); // The caller's umask must not hide files from other users.

/** Time of all files in the archive, as in images: 2026-01-01. */
const DEFAULT_EPOCH = "1767225600";

/** Names of images as in `hack/images`, which the command line has. */
const KEYS = new Map(
  Object.entries(IMAGES).map(([key, { reference }]) => [parseReference(reference).repository, key]),
);

function parseReleased(words: readonly string[]): ReleasedImages {
  const settings = words.map((word): ReleasedImages => {
    const [name = "", setting = ""] = word.split("=");
    if (name === "registry" && setting !== "") return { registry: setting };
    const key = KEYS.get(name);
    if (key === undefined || !/^sha256:[0-9a-f]{64}$/.test(setting)) {
      const known = [...KEYS.keys()].join(", ");
      throw new Error(`${word}: write registry=NAME, or IMAGE=sha256:DIGEST with one of ${known}`);
    }
    return { digests: { [key]: setting } };
  });
  const registry = settings.find((each) => each.registry !== undefined)?.registry;
  const digests = settings.flatMap((each) => Object.entries(each.digests ?? {}));
  return { digests: Object.fromEntries(digests), ...(registry !== undefined && { registry }) };
}

/** Packs the chart's folder. Helm expects the folder with the chart's name in the archive. */
function pack(folder: string): Buffer {
  const epoch = process.env["SOURCE_DATE_EPOCH"] ?? DEFAULT_EPOCH;
  const reproducible = "--sort=name --format=ustar --numeric-owner --owner=0 --group=0";
  const argv = [...reproducible.split(" "), "--mode=u=rwX,go=rX", `--mtime=@${epoch}`];
  const tar = execFileSync(
    "tar",
    ["--create", ...argv, `--directory=${dirname(folder)}`, CHART_NAME],
    {
      maxBuffer: 64 * 1024 * 1024,
      env: { ...process.env, LC_ALL: "C", TZ: "UTC" },
    },
  );
  return gzipSync(tar, { level: 9 });
}

async function main(): Promise<void> {
  const [directory, version, ...words] = process.argv.slice(2);
  if (directory === undefined || version === undefined) {
    throw new Error("usage: make OUTDIR VERSION [registry=NAME] [IMAGE=sha256:DIGEST...]");
  }
  const files = renderChart(await readBase(), version, parseReleased(words));
  const folder = join(resolve(directory), CHART_NAME);
  rmSync(folder, { recursive: true, force: true });
  for (const [path, text] of files) {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  const archive = join(resolve(directory), `${CHART_NAME}-${version}.tgz`);
  writeFileSync(archive, pack(folder));
  console.log(archive);
}

try {
  await main();
} catch (error) {
  console.error(`chart: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
