// SPDX-License-Identifier: Apache-2.0
// Reads images back as a kernel does: the descriptor, the records of directories, the extents.
import fc from "fast-check";
import { expect, test } from "vitest";
import { isoImage } from "./iso-image.ts";

const SECTOR = 2048;
const DESCRIPTORS = { primary: 16, joliet: 17 } as const;

interface Found {
  readonly name: Uint8Array;
  readonly sector: number;
  readonly size: number;
  readonly isDirectory: boolean;
}

function viewOf(image: Uint8Array): DataView {
  return new DataView(image.buffer, image.byteOffset, image.length);
}

function recordAt(image: Uint8Array, at: number): Found {
  const view = viewOf(image);
  const [sector, size] = [view.getUint32(at + 2, true), view.getUint32(at + 10, true)];
  expect([view.getUint32(at + 6), view.getUint32(at + 14)]).toEqual([sector, size]);
  const name = image.subarray(at + 33, at + 33 + (image[at + 32] ?? 0));
  return { name, sector, size, isDirectory: image[at + 25] === 2 };
}

function listAt(image: Uint8Array, { sector }: Found): readonly Found[] {
  const found: Found[] = [];
  for (let at = sector * SECTOR; image[at] !== 0; at += image[at] ?? 1) {
    found.push(recordAt(image, at));
  }
  const [self, above, ...others] = found;
  expect([self?.sector, self?.isDirectory, above?.isDirectory]).toEqual([sector, true, true]);
  return others;
}

/** Joliet's letters have two bytes. */
function nameOf({ name }: Found, step: number): string {
  const codes = [...name].filter((_, index) => index % step === step - 1);
  return String.fromCharCode(...codes);
}

function buildFiles(image: Uint8Array, tree: keyof typeof DESCRIPTORS): Record<string, string> {
  const read = (directory: Found, path: string): readonly (readonly [string, string])[] =>
    listAt(image, directory).flatMap((found) => {
      const name = `${path}${nameOf(found, tree === "joliet" ? 2 : 1)}`;
      if (found.isDirectory) return read(found, `${name}/`);
      const from = found.sector * SECTOR;
      return [[name, Buffer.from(image.subarray(from, from + found.size)).toString()] as const];
    });
  return Object.fromEntries(read(recordAt(image, DESCRIPTORS[tree] * SECTOR + 156), ""));
}

function imageOf(files: Readonly<Record<string, string>>, label = "cidata"): Uint8Array {
  const contents = Object.entries(files).map(([path, text]) => [path, Buffer.from(text)] as const);
  return isoImage(label, new Map(contents));
}

const DRIVE = { "openstack/latest/meta_data.json": "{}", "openstack/latest/user_data": "x" };

test("files have their names in both directory trees, each in its own format", () => {
  expect(buildFiles(imageOf(DRIVE), "joliet")).toEqual({
    "openstack/latest/meta_data.json;1": "{}",
    "openstack/latest/user_data;1": "x",
  });
  expect(buildFiles(imageOf({ ...DRIVE, "user-data": "y" }), "primary")).toEqual({
    "OPENSTACK/LATEST/META_DATA.JSON;1": "{}",
    "OPENSTACK/LATEST/USER_DATA.;1": "x",
    "USER_DATA.;1": "y",
  });
});

test("round-trips any content in blocks of 4096 bytes", () => {
  const text = fc.string({ maxLength: 5000, unit: "grapheme" });
  fc.assert(
    fc.property(text, text, (one, other) => {
      const image = imageOf({ "meta-data": one, "user-data": other });
      const want = { "meta-data;1": one, "user-data;1": other };
      expect(buildFiles(image, "joliet")).toEqual(
        Object.fromEntries(Object.entries(want).map(([k, v]) => [k, Buffer.from(v).toString()])),
      );
      expect(image.length % 4096).toBe(0);
      expect(viewOf(image).getUint32(16 * SECTOR + 80, true) * SECTOR).toBe(image.length);
    }),
    { numRuns: 30 },
  );
});

test("the label is at its standard position, and the descriptors are terminated", () => {
  const image = imageOf(DRIVE, "config-2");
  const text = (from: number, count: number): string =>
    String.fromCharCode(...image.subarray(from, from + count));
  expect(text(16 * SECTOR, 6)).toBe("\u0001CD001");
  expect(text(16 * SECTOR + 40, 32)).toBe("config-2".padEnd(32));
  expect(text(17 * SECTOR + 40, 16)).toBe("\0c\0o\0n\0f\0i\0g\0-\u00002");
  expect(text(17 * SECTOR + 88, 3)).toBe("%/E");
  expect(text(18 * SECTOR, 6)).toBe("\u00ffCD001");
});

test("the path tables contain each directory with its parent", () => {
  const image = imageOf(DRIVE);
  const little = viewOf(image).getUint32(16 * SECTOR + 140, true);
  const big = viewOf(image).getUint32(16 * SECTOR + 148);
  const parents = (sector: number, isLittle: boolean): readonly number[] => {
    const found: number[] = [];
    const end = sector * SECTOR + viewOf(image).getUint32(16 * SECTOR + 132, true);
    for (let at = sector * SECTOR; at < end;) {
      found.push(viewOf(image).getUint16(at + 6, isLittle));
      const length = image[at] ?? 0;
      at += 8 + length + (length % 2);
    }
    return found;
  };
  expect(parents(little, true)).toEqual([1, 1, 2]);
  expect(parents(big, false)).toEqual([1, 1, 2]);
});
