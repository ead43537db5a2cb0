// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles } from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { isAdded, isLocal, openImageAccess } from "./image-access.ts";

const DIGEST = `sha256:${"0".repeat(64)}`;
const FILE = "/state/images.json";

test.each([
  { name: "what no registry was asked for", reference: "guest", digests: [], want: true },
  {
    name: "what was pulled",
    reference: "reg.example/a:1",
    digests: [`reg.example/a@${DIGEST}`],
    want: false,
  },
  {
    name: "what was added, and pulled by another name",
    reference: "guest",
    digests: [`reg.example/a@${DIGEST}`],
    want: true,
  },
  {
    name: "that by its other name",
    reference: "reg.example/a:1",
    digests: [`reg.example/a@${DIGEST}`],
    want: false,
  },
  {
    name: "that by its id",
    reference: "sha256:1",
    digests: [`reg.example/a@${DIGEST}`],
    want: true,
  },
])("added: $name: $want", ({ reference, digests, want }) => {
  const tags = ["docker.io/library/guest:latest", "reg.example/a:1"];
  expect(isAdded(reference, { id: "sha256:1", tags, digests, bytes: 1, username: "" })).toBe(want);
});

test("what was pulled is no added one by its id", () => {
  const digests = [`reg.example/a@${DIGEST}`];
  const image = { id: "sha256:1", tags: ["reg.example/a:1"], digests, bytes: 1, username: "" };
  expect(isAdded("sha256:1", image)).toBe(false);
  expect(isAdded(`reg.example/a@${DIGEST}`, image)).toBe(false);
});

test.each([
  { reference: "localhost/a:1", want: true },
  { reference: "localhost:5000/a:1", want: false },
  { reference: "a", want: false },
])("no registry has $reference: $want", ({ reference, want }) => {
  expect(isLocal(reference)).toBe(want);
});

test("a namespace uses what was pulled for it, and all what was given to nobody in particular", async () => {
  const files = createFakeFiles();
  const access = await openImageAccess(files, FILE);
  expect(access.mayUse("a", "ns1")).toBe(false);
  await access.grant("a", "ns1");
  await access.grant("b");
  const again = await openImageAccess(files, FILE);
  expect(["ns1", "ns2"].map((namespace) => again.mayUse("a", namespace))).toEqual([true, false]);
  expect(again.mayUse("b", "ns2")).toBe(true);
  await again.keep(new Set(["b"]));
  const later = await openImageAccess(files, FILE);
  expect([later.mayUse("a", "ns1"), later.mayUse("b", "ns1")]).toEqual([false, true]);
});

test("a file that is none of ours is as good as none", async () => {
  const files = createFakeFiles();
  await files.writeAtomic(FILE, '{"a":["ns1",1],"b":"x"}');
  const access = await openImageAccess(files, FILE);
  expect([access.mayUse("a", "ns1"), access.mayUse("b", "x")]).toEqual([true, false]);
});
