// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  buildTag,
  findOversized,
  IMAGES,
  withReleasedNames,
  type ImageName,
  type ReleasedImages,
} from "./image-names.ts";

function images(bytes: Partial<Record<ImageName, number>> = {}): ReleasedImages {
  const entries = IMAGES.map((image) => [
    image,
    {
      tag: buildTag("r.example/p", image, "0.2.0"),
      digest: `sha256:${image}`,
      bytes: { amd64: bytes[image] ?? 1, arm64: 1 },
    },
  ]);
  return Object.fromEntries(entries) as ReleasedImages;
}

describe("names in a text", () => {
  test("become those of the release, with the digest", () => {
    const text = "image: localhost/patchbay/patchbay:dev\n--a=localhost/patchbay/virt-launcher:dev";
    expect(withReleasedNames(text, images())).toBe(
      "image: r.example/p/patchbay:0.2.0@sha256:patchbay\n--a=r.example/p/virt-launcher:0.2.0@sha256:virt-launcher",
    );
  });

  test("that no image of the release has are rejected", () => {
    expect(() => withReleasedNames('"localhost/patchbay/other:dev"', images())).toThrow(
      "the release has no image for localhost/patchbay/other:dev",
    );
  });
});

test.each([
  { name: "at the limits", given: { patchbay: 120e6, "virt-launcher": 250e6 }, want: [] },
  {
    name: "above the limits",
    given: { patchbay: 120_100_000, "virt-launcher": 251e6, pause: 300e6 },
    want: [
      "image virt-launcher for amd64 has 251.0 MB, more than 250.0 MB",
      "image patchbay for amd64 has 120.1 MB, more than 120.0 MB",
    ],
  },
])("sizes $name", ({ given, want }) => {
  expect(findOversized(images(given))).toEqual(want);
});
