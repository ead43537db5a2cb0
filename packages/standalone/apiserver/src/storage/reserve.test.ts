// SPDX-License-Identifier: Apache-2.0
// Disk space that is released piece by piece, and claimed again.
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openReserve } from "./reserve.ts";

const PIECE = 256 * 1024;

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "reserve-"));
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

function sizeOf(): number {
  return statSync(join(directory, "store.reserve")).size;
}

test("has its full size from the start, and again when there is space", () => {
  const reserve = openReserve(join(directory, "store"));
  const whole = sizeOf();
  expect([reserve.isFullSize, whole > PIECE]).toEqual([true, true]);
  expect(reserve.release()).toBe(true);
  expect([reserve.isFullSize, sizeOf()]).toEqual([false, whole - PIECE]);
  reserve.refill();
  expect([reserve.isFullSize, sizeOf()]).toEqual([true, whole]);
  reserve.refill();
  expect(sizeOf()).toBe(whole);
  reserve.close();
});

test("is released until nothing remains", () => {
  const reserve = openReserve(join(directory, "store"));
  const pieces = Math.ceil(sizeOf() / PIECE);
  const released = Array.from({ length: pieces + 2 }, () => reserve.release());
  expect(released.filter(Boolean)).toHaveLength(pieces);
  expect([sizeOf(), reserve.release()]).toEqual([0, false]);
  reserve.close();
});

test("is reused if it exists", () => {
  writeFileSync(join(directory, "store.reserve"), Buffer.alloc(100));
  const reserve = openReserve(join(directory, "store"));
  expect(reserve.isFullSize).toBe(true);
  reserve.close();
  const again = openReserve(join(directory, "store"));
  expect(again.isFullSize).toBe(true);
  again.close();
});

test("is readable by its owner only", () => {
  openReserve(join(directory, "store")).close();
  expect(statSync(join(directory, "store.reserve")).mode & 0o777).toBe(0o600);
});

test("is empty for an in-memory store, and never short", () => {
  const reserve = openReserve(":memory:");
  expect([reserve.isFullSize, reserve.release()]).toEqual([true, false]);
});

test("throws if it cannot be opened, except on a full disk", () => {
  expect(() => openReserve("/nowhere/store")).toThrow("ENOENT");
});
