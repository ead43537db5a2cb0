// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { fullReference, shortReference } from "./reference.ts";
import { selectNamedRecords, listNamesToRemove, findUnnamedIds, parseRecords } from "./images.ts";

const A = `sha256:${"a".repeat(64)}`;
const B = `sha256:${"b".repeat(64)}`;

// Captured from ctr 1.6.20.
const LISTING = `REF                            TYPE                                       DIGEST                                                                  SIZE    PLATFORMS   LABELS                          
docker.io/library/guest:latest application/vnd.oci.image.manifest.v1+json ${A} 1.9 MiB linux/amd64 io.cri-containerd.image=managed 
${B} application/vnd.oci.image.manifest.v1+json ${A} 1.9 MiB linux/amd64 io.cri-containerd.image=managed 
import-2026-11-22:latest       application/vnd.oci.image.index.v1+json    ${B} -       -           
`;

test("parses names and digests from ctr's output", () => {
  expect(parseRecords(LISTING)).toEqual([
    { name: "docker.io/library/guest:latest", digest: A },
    { name: B, digest: A },
    { name: "import-2026-11-22:latest", digest: B },
  ]);
  expect(parseRecords("")).toEqual([]);
});

describe("names of an image", () => {
  const tag = { name: "r.example/guest:v1", digest: A };
  const otherTag = { name: "r.example/guest:v2", digest: A };
  const pinned = { name: `r.example/guest@${A}`, digest: A };
  const id = { name: B, digest: A };

  test.each([
    { name: "a tag is known, its digest and id are not", given: [tag, pinned, id], want: [tag] },
    { name: "a digest is a name if no tag exists", given: [pinned, id], want: [pinned] },
    { name: "an id is not a name", given: [id], want: [] },
  ])("$name", ({ given, want }) => {
    expect(selectNamedRecords(given)).toEqual(want);
  });

  test.each([
    { name: "an id without a name is an orphan", given: [id], want: [B] },
    { name: "an id with a digest is not unnamed", given: [pinned, id], want: [] },
    {
      name: "an id beside another image's tag is one",
      given: [{ ...tag, digest: B }, id],
      want: [B],
    },
  ])("$name", ({ given, want }) => {
    expect(findUnnamedIds(given)).toEqual(want);
  });

  test.each([
    {
      name: "the digest goes with its last tag",
      given: [tag, pinned],
      want: [tag.name, pinned.name],
    },
    { name: "the digest stays with another tag", given: [tag, otherTag, pinned], want: [tag.name] },
    { name: "a missing tag is not removed", given: [otherTag], want: [] },
  ])("$name", ({ given, want }) => {
    expect(listNamesToRemove(given, tag.name)).toEqual(want);
  });

  test("a digest that is removed goes once", () => {
    expect(listNamesToRemove([pinned, id], pinned.name)).toEqual([pinned.name]);
  });
});

describe("a reference", () => {
  test.each([
    ["guest", "docker.io/library/guest:latest"],
    ["guest:v1", "docker.io/library/guest:v1"],
    ["team/guest", "docker.io/team/guest:latest"],
    ["localhost/patchbay/pause:dev", "localhost/patchbay/pause:dev"],
    ["127.0.0.1:5000/guest", "127.0.0.1:5000/guest:latest"],
    ["registry.example/a/b.c_d--e:1.0", "registry.example/a/b.c_d--e:1.0"],
    [`guest@${A}`, `docker.io/library/guest@${A}`],
    [`guest:v1@${A}`, `docker.io/library/guest@${A}`],
  ])("normalizes %s to %s", (short, full) => {
    expect(fullReference(short)).toBe(full);
    expect(fullReference(full)).toBe(full);
  });

  test.each([
    "",
    "Guest",
    "a//b",
    "guest:",
    "guest:.x",
    "a/../b",
    "-guest",
    "guest@sha256:12",
    "a b",
  ])("rejects %j", (reference) => {
    expect(() => fullReference(reference)).toThrow("not an image name");
  });

  test.each([
    ["docker.io/library/guest:latest", "guest"],
    ["docker.io/team/guest:v1", "team/guest:v1"],
    ["localhost/patchbay/pause:dev", "localhost/patchbay/pause:dev"],
  ])("shortens %s to %s", (full, short) => {
    expect(shortReference(full)).toBe(short);
  });
});
