// SPDX-License-Identifier: Apache-2.0
// The artifacts of a release, in the order of their making. Later ones read `images.json` of the first.
import { makeChart } from "./chart.ts";
import { makeManifests } from "./cluster-manifests.ts";
import { makeCommandLine } from "./command-line.ts";
import { makeAllImages } from "./images.ts";
import type { Artifact } from "./release.ts";

export const ARTIFACTS: readonly Artifact[] = [
  { name: "images", make: makeAllImages },
  { name: "manifests", make: makeManifests },
  { name: "chart", make: makeChart },
  { name: "command line", make: makeCommandLine },
];
