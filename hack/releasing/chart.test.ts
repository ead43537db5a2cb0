// SPDX-License-Identifier: Apache-2.0
// The chart of a release names its images by registry and digest.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { makeChart } from "./chart.ts";
import type { ReleasedImage } from "./image-names.ts";
import { emptyDirectory, read } from "./release.ts";

function image(name: string, digit: string): ReleasedImage {
  const digest = `sha256:${digit.repeat(64)}`;
  return { tag: `registry.example/vms/${name}:0.2.0`, digest, bytes: {} };
}

test("the chart has the release's registry and digests as defaults", () => {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-release-"));
  try {
    const output = emptyDirectory(join(directory, "output"));
    const images = {
      pause: image("pause", "0"),
      patchbay: image("patchbay", "1"),
      "virt-launcher": image("virt-launcher", "2"),
      "sidecar-shim": image("sidecar-shim", "3"),
    };
    writeFileSync(join(output, "images.json"), JSON.stringify(images));
    makeChart({
      version: "0.2.0",
      commit: "0".repeat(40),
      architectures: ["amd64"],
      registry: "registry.example/vms",
      url: "",
      epoch: 1_767_225_600,
      output,
      work: join(directory, "work"),
    });
    expect(readdirSync(output)).toEqual(["images.json", "patchbay-0.2.0.tgz"]);
    const archive = join(output, "patchbay-0.2.0.tgz");
    const values: unknown = parse(
      read(["tar", "--extract", "--to-stdout", "--file", archive, "patchbay/values.yaml"]),
    );
    expect(values).toMatchObject({
      images: {
        registry: "registry.example/vms",
        patchbay: { repository: "patchbay", digest: images.patchbay.digest },
        virtLauncher: { repository: "virt-launcher", digest: images["virt-launcher"].digest },
        sidecarShim: { repository: "sidecar-shim", digest: images["sidecar-shim"].digest },
      },
    });
  } finally {
    rmSync(directory, { recursive: true });
  }
});
