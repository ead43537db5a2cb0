// SPDX-License-Identifier: Apache-2.0
// Image builds: equal inputs, equal bytes; nothing is built twice. Uses the smallest image.
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { attempt, describeImage, IMAGES, makeImages, readArchive } from "./archive.ts";

let first: string;
let second: string;

beforeAll(() => {
  first = mkdtempSync(join(tmpdir(), "images-"));
  second = mkdtempSync(join(tmpdir(), "images-"));
});
afterAll(() => {
  for (const directory of [first, second]) rmSync(directory, { recursive: true });
});

test("building an image twice yields the same bytes", () => {
  expect(makeImages(first, "pause")).toMatch(/making image pause: root file system\n.*layer\n/);
  makeImages(second, "pause");
  for (const file of ["pause.tar", "pause.json", "pause.cdx.json"]) {
    expect(readFileSync(join(second, file)).equals(readFileSync(join(first, file)))).toBe(true);
  }
});

test("does not rebuild an existing image", () => {
  const before = statSync(join(first, "pause.tar")).mtimeMs;
  expect(makeImages(first, "pause")).toMatch(/image pause is up to date\n$/);
  expect(statSync(join(first, "pause.tar")).mtimeMs).toBe(before);
});

test("rebuilds an archive without its description, and a description without its archive", () => {
  for (const file of ["pause.tar", "pause.json"]) {
    rmSync(join(second, file));
    expect(makeImages(second, "pause")).toContain("made image pause");
    expect(describeImage(second, "pause")).toEqual(describeImage(first, "pause"));
  }
});

test("changed inputs build a new image that replaces the old one", () => {
  const env = { PATCHBAY_IMAGES_DIR: second, SOURCE_DATE_EPOCH: "1000000000" };
  expect(attempt([join(IMAGES, "make-images"), "pause"], env).status).toBe(0);
  expect(readArchive(join(second, "pause.tar")).config.created).toBe("2001-09-09T01:46:40Z");
  expect(describeImage(second, "pause").digest).not.toBe(describeImage(first, "pause").digest);
});

test("the description lists the archive's contents under its full reference", () => {
  const archive = join(first, "pause.tar");
  const { entry } = readArchive(archive);
  const reference = "localhost/patchbay/pause:dev";
  expect(entry.annotations).toEqual({ "org.opencontainers.image.ref.name": reference });
  expect(describeImage(first, "pause")).toMatchObject({
    reference,
    digest: entry.digest,
    bytes: statSync(archive).size,
  });
});

test("rejects an unknown image name before building", () => {
  const { status, stderr } = attempt([join(IMAGES, "make-images"), "pause", "../pause/."], {
    PATCHBAY_IMAGES_DIR: join(first, "none"),
  });
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: "make-images: there is no image ../pause/.\n",
  });
});
