// SPDX-License-Identifier: Apache-2.0
// The chart's archive is reproducible, and Helm itself reads it like the test of its templates.
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { existsSync } from "node:fs";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { NOT_POSSIBLE, run } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { readBase } from "../../../../hack/chart/base.ts";
import { renderChart } from "../../../../hack/chart/chart.ts";
import { renderChartWithKubectl } from "./render-chart.ts";
import { VALUE_CASES } from "./value-cases.ts";

const MAKE = join(import.meta.dirname, "../../../../hack/chart/make");
const VERSION = "0.2.0";
/** Maximum length of a Secret, in which Helm stores a release with its chart, in bytes. */
const SECRET_MAX = 1024 * 1024;

let directory = "";

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "patchbay-chart-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true });
});

async function make(name: string): Promise<string> {
  const folder = join(directory, name);
  const archive = run(MAKE, folder, VERSION).trim();
  expect(archive).toBe(join(folder, `patchbay-${VERSION}.tgz`));
  return createHash("sha256")
    .update(await readFile(archive))
    .digest("hex");
}

test("two runs write the same bytes, with one time and one owner", async () => {
  expect(await make("first")).toBe(await make("second"));
  const listed = run(
    "tar",
    "--list",
    "--verbose",
    "--full-time",
    "--utc",
    "--numeric-owner",
    "--file",
    join(directory, "first", `patchbay-${VERSION}.tgz`),
  );
  const lines = listed.trimEnd().split("\n");
  expect(lines.length).toBeGreaterThan(40);
  expect(lines.filter((line) => !line.includes(" 0/0 "))).toEqual([]);
  expect(lines.filter((line) => !line.includes(" 2026-01-01 00:00:00 "))).toEqual([]);
  expect(lines.filter((line) => !line.includes(" patchbay/"))).toEqual([]);
});

test("a release with its chart fits a Secret", async () => {
  await make("size");
  const { size } = await readFile(join(directory, "size", `patchbay-${VERSION}.tgz`)).then(
    ({ length }) => ({ size: length }),
  );
  // Helm stores the files of the chart in base64 in JSON, compresses that, and encodes it in base64 again, besides the manifests.
  expect(size * 4).toBeLessThan(SECRET_MAX);
});

function findHelm(): string {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const found = folders.map((folder) => join(folder, "helm")).find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${NOT_POSSIBLE} there is no program helm in PATH`);
  return found;
}

describe("Helm itself", () => {
  test("accepts the chart", async () => {
    const helm = findHelm();
    await make("lint");
    expect(run(helm, "lint", "--strict", join(directory, "lint/patchbay"))).toContain(
      "0 chart(s) failed",
    );
  });

  test("renders the same objects", async () => {
    const helm = findHelm();
    await make("template");
    const chart = renderChart(await readBase(), VERSION);
    for (const [index, { values }] of VALUE_CASES.entries()) {
      const [wanted] = await renderChartWithKubectl(chart, [{ values }]);
      const set = join(directory, `values-${String(index)}.json`);
      const text = run(
        "sh",
        "-c",
        'printf %s "$2" >"$1" && "$3" template patchbay "$4" --namespace patchbay --kube-version 1.36.0 --values "$1"',
        "sh",
        set,
        JSON.stringify(values),
        helm,
        join(directory, `template/patchbay-${VERSION}.tgz`),
      );
      const objects = parseAllDocuments(text).map((each) => each.toJS() as KubeObject);
      expect(objects).toHaveLength(wanted?.objects.length ?? 0);
      expect(objects).toEqual(expect.arrayContaining([...(wanted?.objects ?? [])]));
    }
  });
});
