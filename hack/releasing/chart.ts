// SPDX-License-Identifier: Apache-2.0
// Makes the Helm chart, with the images of the release by digest.
import { copyFileSync } from "node:fs";
import { basename, join } from "node:path";
import { CHART_NAME } from "../chart/chart.ts";
import type { ReleasedImages } from "./image-names.ts";
import { readImages } from "./images.ts";
import { buildEnvironment, emptyDirectory, read, ROOT, type Release } from "./release.ts";

/** Images of the chart's values. */
const IMAGES = ["patchbay", "virt-launcher", "sidecar-shim"] as const;

/** Arguments of `hack/chart/make` after the folder and the version. */
function listChartSettings(registry: string, images: ReleasedImages): readonly string[] {
  return [`registry=${registry}`, ...IMAGES.map((name) => `${name}=${images[name].digest}`)];
}

/** Makes `patchbay-VERSION.tgz`. */
export function makeChart(release: Release): void {
  const { registry, version, work, output } = release;
  const folder = emptyDirectory(join(work, "chart"));
  const make = join(ROOT, "hack/chart/make");
  const settings = listChartSettings(registry, readImages(release));
  const archive = read([make, folder, version, ...settings], buildEnvironment(release)).trim();
  if (basename(archive) !== `${CHART_NAME}-${version}.tgz`) {
    throw new Error(`hack/chart/make has made ${archive}`);
  }
  copyFileSync(archive, join(output, basename(archive)));
}
