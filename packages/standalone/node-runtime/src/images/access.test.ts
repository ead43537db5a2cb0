// SPDX-License-Identifier: Apache-2.0
import type { ContainerImage } from "@patchbay/core/interfaces";
import { createFakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import { createImageAccess, type AccessDeps, createGrants } from "./access.ts";

const ME = { username: "me", password: "pw" };
const DIGEST = `sha256:${"0".repeat(64)}`;

function anImage(tags: readonly string[], digests: readonly string[] = []): ContainerImage {
  return { id: "sha256:1", tags, digests, bytes: 1, username: "" };
}

function accessWith(isMarkedAsAdded?: AccessDeps["isMarkedAsAdded"]) {
  const grants = createGrants({
    files: createFakeFiles(),
    log: createFakeLogger(),
    directory: "/images",
  });
  return createImageAccess({ grants, ...(isMarkedAsAdded && { isMarkedAsAdded }) });
}

const FETCHED = anImage(["reg.example/a:1"], [`reg.example/a@${DIGEST}`]);

describe("a name was added on this machine", () => {
  test.each<{
    name: string;
    reference: string;
    image: ContainerImage;
    marked?: readonly string[];
    want: boolean;
  }>([
    { name: "not a tag of the image", reference: "b", image: FETCHED, want: false },
    { name: "an image id", reference: "sha256:1", image: FETCHED, want: false },
    {
      name: "with a localhost reference",
      reference: "localhost/a:1",
      image: anImage(["localhost/a:1"], [`localhost/a@${DIGEST}`]),
      want: true,
    },
    {
      name: "without a digest",
      reference: "reg.example/a:1",
      image: anImage(["reg.example/a:1"]),
      want: true,
    },
    {
      name: "with a digest of another repository",
      reference: "reg.example/a:1",
      image: anImage(["reg.example/a:1"], [`reg.example/b@${DIGEST}`]),
      want: true,
    },
    {
      name: "with a digest of its repository",
      reference: "reg.example/a:1",
      image: FETCHED,
      want: false,
    },
    {
      name: "with a digest of its repository and a mark",
      reference: "reg.example/a:1",
      image: FETCHED,
      marked: ["reg.example/a:1"],
      want: true,
    },
    {
      name: "with a digest of its repository and a mark on another tag",
      reference: "reg.example/a:1",
      image: FETCHED,
      marked: ["reg.example/a:2"],
      want: false,
    },
    {
      name: "in its short form",
      reference: "a",
      image: anImage(["docker.io/library/a:latest"]),
      want: true,
    },
  ])("$name: $want", async ({ reference, image, marked, want }) => {
    const access = accessWith(marked && ((name) => Promise.resolve(marked.includes(name))));
    expect(await access.isAdded({ reference, image })).toBe(want);
  });
});

describe("permission to use an image", () => {
  const image = anImage(["docker.io/library/a:latest", "docker.io/library/b:latest"]);
  const named = { reference: "a", image };
  const nothing = () => Promise.resolve([]);

  test("is denied before a pull from a registry", async () => {
    expect(await accessWith().isGranted(named, () => Promise.resolve([ME]))).toBe(false);
  });

  test("is granted to all pods after a pull without credentials, without reading secrets", async () => {
    const access = accessWith();
    await access.recordPull("a", image.id, undefined);
    const never = () => Promise.reject(new Error("not needed"));
    expect(await access.isGranted(named, never)).toBe(true);
    expect(await access.isGranted({ ...named, reference: "b" }, nothing)).toBe(false);
  });

  test("is granted to pods with the same credentials", async () => {
    const access = accessWith();
    await access.recordPull("docker.io/library/a:latest", image.id, ME);
    expect(await access.isGranted(named, nothing)).toBe(false);
    expect(await access.isGranted(named, () => Promise.resolve([ME]))).toBe(true);
  });

  test("is granted only for existing names of the image", async () => {
    const access = accessWith();
    await access.recordPull("c", image.id, undefined);
    expect(await access.isGranted({ reference: "c", image }, nothing)).toBe(false);
  });
});
